//! Kills a page at random steps: `crashes [POINTS] [SEED]`; 1,000 points of seed 1 unless said.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let points = numbers.next().unwrap_or(1_000);
    let seed = numbers.next().unwrap_or(1);
    let points = u32::try_from(points).expect("so many points");
    let tally = patchkeep_e2e::crashes::run(points, seed).await;
    println!("{tally}");
}
