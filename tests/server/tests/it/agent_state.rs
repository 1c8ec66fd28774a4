//! What an agent keeps on the disk: killed in the middle of an attempt and started again, it goes on (K1, K11, T5, T6).

use patchkeep_server::Point;
use serde_json::Value;

use crate::agent::{Agent, At, run};
use crate::tab::Tab;
use crate::world::{OTHER_TOKEN, World};

/// The one line of `pending`, without the key.
async fn pending(at: &At) -> String {
    let (code, said) = run(at, &["pending"]).await;
    assert_eq!(code, Some(0));
    said.trim_end().split_once(" · ").map_or(said.clone(), |(_, rest)| rest.to_owned())
}

/// An agent that dies while the server's direct write of its op `k` is held at this point.
async fn killed_at(world: &World, at: &At, point: Point) {
    world.server.faults().hold_at(point);
    let agent = Agent::start(at, &["patch", "d1", "--append", "x", "--key", "k"]);
    world.until("the write is held", || world.server.faults().show().held_at == Some(point)).await;
    agent.kill().await;
}

#[tokio::test]
async fn k11_killed_while_a_tab_has_the_patch_it_goes_on_with_the_same_key() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let agent = Agent::start(&at, &["patch", "d1", "--append", "x"]);
    let first = tab.socket.patch().await;
    agent.kill().await;
    assert_eq!(pending(&at).await, "sending · d1 · 1 attempt");
    let mut again = Agent::start(&at, &["resume", "--json"]);
    let patch = tab.socket.patch().await;
    assert_eq!(patch.patch_id, first.patch_id, "the same patch, not another one");
    tab.socket.ack(&patch, false).await;
    let told: Value = serde_json::from_str(&again.line().await).unwrap();
    let replayed = "answer lost · retried with the same key · applied once (replayed)";
    assert_eq!(told["line"], replayed);
    let told: Value = serde_json::from_str(&again.line().await).unwrap();
    assert_eq!(told["line"], "applied · pending save");
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    assert_eq!(again.ends().await.0, Some(0));
    assert_eq!(run(&at, &["pending"]).await, (Some(0), "nothing is pending\n".into()));
}

#[tokio::test]
async fn k11_killed_at_each_point_of_a_direct_write_it_lands_once() {
    for point in [Point::Claimed, Point::Writing, Point::Committed] {
        let world = World::new().await;
        let at = At::of(&world);
        killed_at(&world, &at, point).await;
        world.server.faults().release();
        let (code, said) = run(&at, &["resume"]).await;
        assert_eq!(code, Some(0), "{point:?}: {said}");
        assert!(said.ends_with("k · done · seq 2\n"), "{point:?}: {said}");
        assert_eq!(world.text("d1").await, "a\nx", "{point:?}");
    }
}

#[tokio::test]
async fn k11_without_the_capability_what_was_sending_is_unknown_and_not_sent_again() {
    let world = World::new().await;
    let at = At::of(&world);
    killed_at(&world, &at, Point::Claimed).await;
    // What lies on the disk is that of an agent whose server did not list the capability.
    let db = rusqlite::Connection::open(at.state.path().join("outbox.db")).unwrap();
    let old = r#"replace(op, '"keys_listed_at_first":true', '"keys_listed_at_first":false')"#;
    assert_eq!(db.execute(&format!("UPDATE op SET op = {old} WHERE op <> {old}"), []).unwrap(), 1);
    let (code, said) = run(&at, &["resume"]).await;
    assert_eq!((code, said.lines().next()), (Some(3), Some("k · keys_not_listed")));
    assert_eq!(pending(&at).await, "unknown · d1 · 1 attempt");
    world.server.faults().release();
    world.until_state("k", "done").await;
    // What comes back is used: the question is answered by the server's row.
    assert_eq!(run(&at, &["resume"]).await, (Some(0), "k · done · seq 2\n".into()));
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn k03_a_key_is_bound_to_its_request_before_anything_is_sent() {
    let world = World::new().await;
    let at = At::of(&world);
    assert_eq!(run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await.0, Some(0));
    let (code, said) = run(&at, &["patch", "d2", "--append", "x", "--key", "k"]).await;
    assert_eq!(code, Some(4));
    assert!(said.contains("nothing was sent"), "{said}");
    assert_eq!(world.row("k", "attempt").as_deref(), Some("1"));
    // The same request again is the same op: it is done, and not sent again.
    assert_eq!(run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await, (Some(0), "done · seq 2\n".into()));
    assert_eq!(world.row("k", "attempt").as_deref(), Some("1"));
}

#[tokio::test]
async fn t05_what_a_living_process_is_at_work_on_is_left_to_it() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let mut agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "k"]);
    let patch = tab.socket.patch().await;
    assert_eq!(run(&at, &["resume"]).await, (Some(0), "nothing is pending\n".into()));
    assert_eq!(run(&at, &["patch", "d1", "--append", "x", "--key", "k"]).await, (Some(1), String::new()));
    tab.socket.ack(&patch, false).await;
    assert_eq!(agent.line().await, "applied · pending save");
    agent.kill().await;
    tab.save(&world, 1, "a\nx", &[patch.patch_id]).await;
    // What is on the disk is said first, then what the server knows by now.
    assert_eq!(run(&at, &["resume"]).await, (Some(0), "k · applied · pending save\nk · done · seq 2\n".into()));
}

#[tokio::test]
async fn t06_ops_of_one_user_are_not_sent_with_anothers_token() {
    let world = World::new().await;
    let at = At::of(&world);
    killed_at(&world, &at, Point::Claimed).await;
    world.server.faults().release();
    world.until_state("k", "done").await;
    assert_eq!(run(&at, &["resume", "--token", OTHER_TOKEN]).await, (Some(0), "nothing is pending\n".into()));
    assert_eq!(pending(&at).await, "sending · d1 · 1 attempt");
    // Told to be somebody else, the server does nothing, and says so.
    let (code, said) =
        run(&at, &["patch", "d1", "--append", "y", "--principal", "ws/user", "--token", OTHER_TOKEN]).await;
    assert_eq!((code, said.starts_with("principal_mismatch")), (Some(1), true), "{said}");
    assert_eq!(world.text("d1").await, "a\nx");
}

#[tokio::test]
async fn j11_a_state_that_cannot_be_used_stops_it_before_anything_is_sent() {
    let world = World::new().await;
    let at = At::of(&world);
    std::fs::write(at.state.path().join("outbox.db"), "this is no database, and long enough to be read as one")
        .unwrap();
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await, (Some(1), String::new()));
    assert_eq!(world.text("d1").await, "a\n");
}

#[tokio::test]
async fn k08_settled_by_a_person_it_is_settled_here_too() {
    let world = World::new().await;
    let at = At::of(&world);
    let mut tab = Tab::open(&world).await;
    let agent = Agent::start(&at, &["patch", "d1", "--append", "x", "--key", "k"]);
    let patch = tab.socket.patch().await;
    tab.socket.unknown(&patch).await;
    assert_eq!(agent.ends().await.0, Some(3));
    assert_eq!(pending(&at).await, "unknown · d1 · 1 attempt");
    assert_eq!(run(&at, &["settle", "k", "--as", "not-applied"]).await.0, Some(0));
    assert_eq!(run(&at, &["pending"]).await.1, "nothing is pending\n");
}

#[cfg(unix)]
#[tokio::test]
async fn k01_a_folder_that_others_may_read_is_closed_to_them() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let world = World::new().await;
    let at = At::of(&world);
    let folder = at.state.path();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await.0, Some(0));
    assert_eq!((mode("."), mode("alive"), mode("outbox.db")), (0o700, 0o700, 0o600), "made by somebody, filled here");
    for (name, open) in [(".", 0o777), ("alive", 0o755), ("outbox.db", 0o644)] {
        fs::set_permissions(folder.join(name), Permissions::from_mode(open)).unwrap();
    }
    assert_eq!(run(&at, &["pending"]).await.0, Some(0));
    assert_eq!((mode("."), mode("outbox.db")), (0o700, 0o600), "whatever looks at it first");
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await.0, Some(0));
    assert_eq!(mode("alive"), 0o700);
}

#[cfg(unix)]
#[tokio::test]
async fn k01_a_folder_that_all_share_stays_theirs() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let world = World::new().await;
    let at = At::of(&world);
    let folder = at.state.path();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(run(&at, &["patch", "d1", "--append", "x"]).await.0, Some(0));
    assert_eq!((mode("."), mode("alive"), mode("outbox.db")), (0o1777, 0o700, 0o600));
}

#[tokio::test]
async fn t06_nothing_is_kept_or_looked_for_with_a_token_that_is_not_taken() {
    let world = World::new().await;
    let at = At::of(&world);
    killed_at(&world, &at, Point::Claimed).await;
    world.server.faults().release();
    let gone = (Some(1), "unauthorized · a bearer token is needed · nothing was sent\n".to_owned());
    let ended = run(&at, &["patch", "d1", "--append", "y", "--token", "expired"]).await;
    assert_eq!(pending(&at).await, "sending · d1 · 1 attempt", "and nothing else");
    assert_eq!(ended, gone);
    // It is not said that there is nothing: whose ops to look for is not known.
    assert_eq!(run(&at, &["resume", "--token", "expired"]).await, gone);
    assert_eq!(run(&at, &["resume"]).await.0, Some(0));
    assert_eq!(world.text("d1").await, "a\nx");
}
