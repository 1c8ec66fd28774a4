//! P1, P2 under crashes: some of the random points; `cargo xtask crashes` takes any number of them.

#[tokio::test]
async fn p01_a_page_killed_at_any_step_leaves_each_edit_as_often_as_the_server_says() {
    let tally = patchkeep_e2e::crashes::run(60, 1).await;
    println!("{tally}");
    assert_eq!(tally.crashes, 60);
}
