//! A malformed, oversized, unknown or hostile frame stops nothing, changes no document, and shows as an event.

use patchkeep_e2e::frames::{Patch, patch_id};
use patchkeep_e2e::page::with_raw_server;
use serde_json::{Value, json};

#[tokio::test]
async fn hostile_frames_are_reported_and_change_nothing() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        let patch = hello.frame(&Patch::append(1, "d1", "X"));
        let with = |name: &str, value: Value| {
            let mut frame = patch.clone();
            frame[name] = value;
            frame.to_string()
        };
        let hostile = [
            String::new(),
            "not JSON".into(),
            "[]".into(),
            "17".into(),
            "null".into(),
            "{}".into(),
            r#"{"type":17}"#.into(),
            r#"{"type":"patch"}"#.into(),
            r#"{"type":"patch","type":"patch_query"}"#.into(),
            r#"{"type":"patch_query","patches":7}"#.into(),
            r#"{"type":"patch_confirmed","patches":[{"patch_id":"x","as":"acked"}]}"#.into(),
            r#"{"type":"opened","doc":"d1","incarnation":"x","seq":-1}"#.into(),
            r#"{"type":"welcome"}"#.into(),
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            format!(r#"{{"type":"patch","body":{}1{}}}"#, "[".repeat(200), "]".repeat(200)),
            with("patch_id", "x".into()),
            with("patch_id", 1.into()),
            with("delivery", json!(-1)),
            with("delivery", json!(1.5)),
            with("expires_at", "soon".into()),
            with("digest", "abc".into()),
        ];
        for (n, text) in hostile.iter().enumerate() {
            socket.send_text(text.as_str()).await;
            page.until(&format!("pk.eventsOf('problem').length > {n}")).await;
        }
        let codes = page.problems().await;
        assert_eq!(codes.len(), hostile.len(), "one event for each: {codes:?}");
        // A patch that names itself may have been refused by name; everything else got no answer.
        page.live().await;
        assert_eq!(page.text("d1").await, "");
        assert_eq!(page.calls("d1").await, 0);

        socket.send(hello.frame(&Patch::append(2, "d1", "Y"))).await;
        socket.skip_to("patch_ack").await;
        assert_eq!(page.text("d1").await, "Y", "the session goes on");
    })
    .await;
}

#[tokio::test]
async fn unknown_types_and_fields_are_ignored() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        socket.send(json!({ "type": "fireworks", "patch_id": 1 })).await;
        let mut frame = hello.frame(&Patch::append(1, "d1", "X"));
        frame["colour"] = "red".into();
        frame["__proto__"] = json!({ "polluted": true });
        socket.send(frame).await;
        socket.expect("patch_start").await;
        socket.expect("patch_ack").await;
        assert_eq!(page.text("d1").await, "X");
        assert_eq!(page.problems().await, Vec::<String>::new());
        assert_eq!(page.eval("({}).polluted === undefined").await, true);
    })
    .await;
}

#[tokio::test]
async fn an_oversized_frame_is_refused_and_the_socket_kept() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.accept_with(json!({ "max_frame_bytes": 4096 })).await;
        socket.send(hello.frame(&Patch::append(1, "d1", &"X".repeat(5000)))).await;
        page.problem("frame_too_large").await;
        // é is one UTF-16 unit and two bytes: the limit is in bytes.
        socket.send(hello.frame(&Patch::append(2, "d1", &"é".repeat(2500)))).await;
        page.until("pk.eventsOf('problem').filter(({ code }) => code === 'frame_too_large').length === 2").await;
        socket.send(hello.frame(&Patch::append(3, "d1", "ok"))).await;
        let ack = socket.skip_to("patch_ack").await;
        assert_eq!(ack["patch_id"], patch_id(3));
        assert_eq!(page.text("d1").await, "ok");
    })
    .await;
}

#[tokio::test]
async fn patches_for_somebody_else_are_refused_by_name() {
    with_raw_server(async |page, server| {
        page.start_on(&server.url(), &["d1"]).await;
        let (mut socket, hello) = server.welcome().await;
        let elsewhere = Patch::append(1, "d2", "X").frame(hello.journal_id(), hello.incarnation("d1"));
        socket.send(elsewhere).await;
        assert_eq!(socket.expect("patch_refuse").await["reason"], "not_open");
        socket.send(Patch::append(2, "d1", "X").frame(hello.journal_id(), &patch_id(99))).await;
        assert_eq!(socket.expect("patch_refuse").await["reason"], "wrong_incarnation");
        socket.send(Patch::append(3, "d1", "X").frame(&patch_id(98), hello.incarnation("d1"))).await;
        assert_eq!(
            socket.expect("patch_unknown").await["patch_id"],
            patch_id(3),
            "another journal proves nothing (J12)"
        );
        let mut mismatched = hello.frame(&Patch::append(4, "d1", "X"));
        mismatched["body"]["text"] = "Y".into();
        socket.send(mismatched).await;
        assert_eq!(socket.expect("patch_refuse").await["reason"], "digest_mismatch");
        // None of these is recorded (J5): the same patch, rightly addressed, is applied.
        socket.send(hello.frame(&Patch::append(4, "d1", "X").delivery(2))).await;
        socket.expect("patch_start").await;
        assert_eq!(socket.expect("patch_ack").await["replayed"], false);
        assert_eq!(page.text("d1").await, "X");
    })
    .await;
}
