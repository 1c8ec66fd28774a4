//! §10 through the server's direct write (B51, B58).

use serde_json::{Value, json};

use crate::tab::{Identity, incarnation};
use crate::world::{Edit, Reply, TOKEN, World};

async fn with_text(text: &str) -> World {
    let world = World::new().await;
    let body = Identity::new().save(incarnation(), 1, text, &[]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 200);
    world
}

async fn edit(world: &World, key: &str, edit: &Value) -> Reply {
    world.send(&Edit::body(key, &json!({"edit": edit}).to_string())).await
}

#[tokio::test]
async fn b51_dollar_signs_are_literal() {
    let world = with_text("log(1);").await;
    let body = json!({"kind": "text.replace", "find": "log(1);", "replace": "$& $$ $` $' $1"});
    assert_eq!(edit(&world, "k", &body).await.status, 200);
    assert_eq!(world.text("d1").await, "$& $$ $` $' $1");
}

#[tokio::test]
async fn b51_needles_are_literal() {
    let world = with_text("a.b(c axb(c").await;
    assert_eq!(edit(&world, "k", &json!({"kind": "text.replace", "find": "a.b(c", "replace": "!"})).await.status, 200);
    assert_eq!(world.text("d1").await, "! axb(c");
}

#[tokio::test]
async fn b58_json_edits_never_leave_the_document() {
    let world = with_text(r#"{"a":1}"#).await;
    for (n, ops) in [
        json!([{"op": "add", "path": "/__proto__/polluted", "value": 1}]),
        json!([{"op": "add", "path": "/constructor/prototype/polluted", "value": 1}]),
        json!([{"op": "replace", "path": "/a", "value": 9}, {"op": "remove", "path": "/nope"}]),
        json!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}]),
        json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
    ]
    .into_iter()
    .enumerate()
    {
        let reply = edit(&world, &format!("k{n}"), &json!({"kind": "json.patch", "ops": ops})).await;
        assert_eq!((reply.status, reply.code(), reply.released()), (422, "patch_failed", true));
        assert_eq!(world.text("d1").await, r#"{"a":1}"#, "all or nothing");
    }
    let raw = r#"{"edit":{"kind":"json.merge","value":{"__proto__":{"polluted":1},"a":1}}}"#;
    assert_eq!(world.send(&Edit::body("merge", raw)).await.status, 200);
    assert_eq!(world.text("d1").await, r#"{"a":1,"__proto__":{"polluted":1}}"#, "an own key like any other");
}

#[tokio::test]
async fn s10_every_kind_and_its_refusals() {
    let world = with_text("one two one 😀").await;
    let refused = [
        (json!({"kind": "text.replace", "find": "three", "replace": ""}), "anchor_not_found"),
        (json!({"kind": "text.replace", "find": "one", "replace": ""}), "anchor_ambiguous"),
        (json!({"kind": "text.insert", "anchor": "one", "where": "after", "text": "!"}), "anchor_ambiguous"),
        (json!({"kind": "text.splice", "at": 99, "delete": 0, "insert": "x"}), "out_of_range"),
        (json!({"kind": "text.splice", "at": 13, "delete": 0, "insert": "x"}), "out_of_range"),
        (json!({"kind": "text.splice", "at": 0, "delete": 3, "insert": "x", "expect": "two"}), "expect_mismatch"),
        (json!({"kind": "json.patch", "ops": []}), "patch_failed"),
        (json!({"kind": "text.unheard_of"}), "malformed"),
        (json!({"kind": "text.append"}), "malformed"),
        (json!({}), "malformed"),
    ];
    for (n, (body, code)) in refused.iter().enumerate() {
        let reply = edit(&world, &format!("r{n}"), body).await;
        assert_eq!((reply.status, reply.code(), reply.released()), (422, *code, true), "{body}");
    }
    let applied = [
        (json!({"kind": "text.replace", "find": "one", "replace": "1", "occurrence": 2}), "one two 1 😀"),
        (json!({"kind": "text.insert", "anchor": "two", "where": "before", "text": "!"}), "one !two 1 😀"),
        (json!({"kind": "text.append", "text": "."}), "one !two 1 😀."),
        (json!({"kind": "text.prepend", "text": ">"}), ">one !two 1 😀."),
        (json!({"kind": "text.splice", "at": 12, "delete": 2, "insert": "", "expect": "😀"}), ">one !two 1 ."),
        (json!({"kind": "text.set", "text": "[1.50]"}), "[1.50]"),
        (json!({"kind": "json.patch", "ops": [{"op": "add", "path": "/-", "value": 2}]}), "[1.50,2]"),
        (json!({"kind": "json.merge", "value": {"a": 1}}), r#"{"a":1}"#),
    ];
    for (n, (body, text)) in applied.iter().enumerate() {
        assert_eq!(edit(&world, &format!("a{n}"), body).await.status, 200, "{body}");
        assert_eq!(world.text("d1").await, *text);
    }
}

#[tokio::test]
async fn s11_bodies_without_a_canonical_form_are_malformed() {
    let world = World::new().await;
    for body in [
        r#"{"edit":{"kind":"text.append","text":"\ud83d"}}"#,
        r#"{"edit":{"kind":"text.append","text":"x","text":"y"}}"#,
        r#"{"edit":{"kind":"text.append","text":"x","n":9007199254740993}}"#,
        r#"{"edit":{"kind":"text.append","text":"x","n":1e999}}"#,
        r#"{"edit":"x"}"#,
        r#"{"edit":{"kind":"text.append","text":"x"},"guarded":1}"#,
        "",
        "null",
    ] {
        let reply = world.send(&Edit::body("k", body)).await;
        assert_eq!((reply.status, reply.code()), (400, "malformed"), "{body}");
    }
    assert_eq!(world.state("k"), "", "nothing was claimed");
    assert_eq!(world.text("d1").await, "a\n");
}

#[tokio::test]
async fn documents_and_requests_have_a_limit() {
    let world = World::with(|c| c.max_doc_bytes = 1000).await;
    let reply = edit(&world, "k", &json!({"kind": "text.append", "text": "x".repeat(999)})).await;
    assert_eq!((reply.status, reply.code()), (413, "too_large"));
    let huge = edit(&world, "huge", &json!({"kind": "text.append", "text": "x".repeat(100_000)})).await;
    assert_eq!((huge.status, huge.code(), huge.released()), (413, "too_large", false), "it never came to a claim");
    let body = Identity::new().save(incarnation(), 1, &"x".repeat(1001), &[]);
    assert_eq!(world.put("d1", TOKEN, &body).await.unwrap().status, 413);
}
