//! `json.patch` (RFC 6902, all or nothing) and `json.merge` (RFC 7396) on a text that holds JSON.
//!
//! The result is written without white space, members in their order, numbers as they were spelled.

use std::collections::{HashMap, HashSet};

use patchkeep_core::frame::Reason;
use patchkeep_core::json::{self, MAX_DEPTH, Value};

use super::tree::{Node, find, set};

/// The text after a JSON patch. It applies as a whole or not at all: the tree is thrown away on the first failure.
///
/// # Errors
/// `patch_failed` where the text is no JSON or an operation does not apply, `malformed` where `ops` is no patch,
/// `too_large` where copies would grow over `max_bytes`.
pub fn patch(text: &str, ops: &Value<'_>, max_bytes: usize) -> Result<String, Reason> {
    let mut root = read(text)?;
    // Copies can double a document with each operation, and moves turn it over again and again: what all of them
    // touch together is bounded before it is done.
    let mut touched = root.size();
    for op in ops.as_array().ok_or(Reason::Malformed)? {
        let op = Op::read(op)?;
        let brought = op.brings(&root)?;
        touched = touched.saturating_add(brought.map_or(0, Node::size)).saturating_add(op.steps(&root));
        if touched > max_bytes.saturating_mul(BUDGET) {
            return Err(Reason::TooLarge);
        }
        if brought.is_some_and(|value| op.path().0.len() + value.depth() > MAX_DEPTH) {
            return Err(Reason::PatchFailed);
        }
        op.apply(&mut root)?;
    }
    Ok(root.text())
}

/// The text after a JSON merge patch.
///
/// # Errors
/// `patch_failed` where the text is no JSON.
pub fn merge(text: &str, value: &Value<'_>) -> Result<String, Reason> {
    let mut root = read(text)?;
    merge_into(&mut root, &Node::from_value(value));
    if root.is_readable() { Ok(root.text()) } else { Err(Reason::PatchFailed) }
}

/// How much a patch may touch, in sizes of the largest document.
const BUDGET: usize = 4;

fn read(text: &str) -> Result<Node, Reason> {
    json::parse(text).map(|value| Node::from_value(&value)).map_err(|_| Reason::PatchFailed)
}

fn merge_into(target: &mut Node, patch: &Node) {
    let Node::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !matches!(target, Node::Object(_)) {
        *target = Node::Object(Vec::new());
    }
    let Node::Object(members) = target else { return };
    // Found by hashing and taken out together: one by one, a megabyte of members would take minutes.
    let mut places: HashMap<String, usize> = members.iter().enumerate().map(|(at, (k, _))| (k.clone(), at)).collect();
    let mut gone = HashSet::new();
    for (key, change) in changes {
        match (places.get(key).copied(), change) {
            (Some(at), Node::Null) => drop(gone.insert(at)),
            (None, Node::Null) => {}
            (Some(at), change) => merge_into(&mut members[at].1, change),
            (None, change) => {
                let mut fresh = Node::Null;
                merge_into(&mut fresh, change);
                places.insert(key.clone(), members.len());
                members.push((key.clone(), fresh));
            }
        }
    }
    let mut at = 0..;
    members.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
}

/// A JSON pointer (RFC 6901), unescaped.
#[derive(Clone, Debug, PartialEq)]
struct Pointer(Vec<String>);

impl Pointer {
    fn read(op: &Value<'_>, name: &str) -> Result<Self, Reason> {
        let text = op.field(name).and_then(Value::as_str).ok_or(Reason::Malformed)?;
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let tokens = text.strip_prefix('/').ok_or(Reason::Malformed)?;
        tokens.split('/').map(unescape).collect::<Option<_>>().map(Self).ok_or(Reason::Malformed)
    }

    fn is_inside(&self, outer: &Self) -> bool {
        self.0.len() > outer.0.len() && self.0.starts_with(&outer.0)
    }

    fn get<'n>(&self, root: &'n Node) -> Result<&'n Node, Reason> {
        let found = self.0.iter().try_fold(root, |node, token| match node {
            Node::Object(members) => find(members, token).map(|at| &members[at].1),
            Node::Array(items) => index(token).and_then(|at| items.get(at)),
            _ => None,
        });
        found.ok_or(Reason::PatchFailed)
    }

    /// The container the last token points into, and that token. The root has none.
    /// The lengths of all containers on its way.
    fn steps(&self, root: &Node) -> usize {
        let mut node = Some(root);
        let mut steps = 0;
        for token in &self.0 {
            let (length, next) = match node {
                Some(Node::Object(members)) => (members.len(), find(members, token).map(|at| &members[at].1)),
                Some(Node::Array(items)) => (items.len(), index(token).and_then(|at| items.get(at))),
                _ => break,
            };
            steps += length;
            node = next;
        }
        steps
    }

    fn parent<'n>(&self, root: &'n mut Node) -> Result<(&'n mut Node, &str), Reason> {
        let (last, path) = self.0.split_last().ok_or(Reason::PatchFailed)?;
        let parent = path.iter().try_fold(root, |node, token| match node {
            Node::Object(members) => find(members, token).map(|at| &mut members[at].1),
            Node::Array(items) => index(token).and_then(|at| items.get_mut(at)),
            _ => None,
        });
        Ok((parent.ok_or(Reason::PatchFailed)?, last))
    }
}

fn unescape(token: &str) -> Option<String> {
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => out.push(match chars.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            }),
            _ => out.push(c),
        }
    }
    Some(out)
}

/// An array index: digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

enum Op {
    Add(Pointer, Node),
    Remove(Pointer),
    Replace(Pointer, Node),
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test(Pointer, Node),
}

impl Op {
    fn read(op: &Value<'_>) -> Result<Self, Reason> {
        let path = Pointer::read(op, "path")?;
        let value = || op.field("value").map(Node::from_value).ok_or(Reason::Malformed);
        let from = || Pointer::read(op, "from");
        Ok(match op.field("op").and_then(Value::as_str).ok_or(Reason::Malformed)? {
            "add" => Self::Add(path, value()?),
            "remove" => Self::Remove(path),
            "replace" => Self::Replace(path, value()?),
            "move" => Self::Move { from: from()?, path },
            "copy" => Self::Copy { from: from()?, path },
            "test" => Self::Test(path, value()?),
            _ => return Err(Reason::Malformed),
        })
    }

    /// What it brings to its path.
    fn brings<'n>(&'n self, root: &'n Node) -> Result<Option<&'n Node>, Reason> {
        Ok(match self {
            Self::Add(_, value) | Self::Replace(_, value) => Some(value),
            Self::Copy { from, .. } | Self::Move { from, .. } => Some(from.get(root)?),
            Self::Remove(_) | Self::Test(..) => None,
        })
    }

    /// How many members and items it passes by or moves, at the most.
    fn steps(&self, root: &Node) -> usize {
        let from = match self {
            Self::Move { from, .. } | Self::Copy { from, .. } => from.steps(root),
            _ => 0,
        };
        let compared = if let Self::Test(_, value) = self { value.size() } else { 0 };
        self.path().steps(root).saturating_add(from).saturating_add(compared)
    }

    const fn path(&self) -> &Pointer {
        match self {
            Self::Add(path, _) | Self::Remove(path) | Self::Replace(path, _) | Self::Test(path, _) => path,
            Self::Move { path, .. } | Self::Copy { path, .. } => path,
        }
    }

    fn apply(self, root: &mut Node) -> Result<(), Reason> {
        match self {
            Self::Add(path, value) => add(root, &path, value),
            Self::Remove(path) => remove(root, &path).map(|_| ()),
            Self::Replace(path, value) => {
                if path.0.is_empty() {
                    *root = value;
                    return Ok(());
                }
                let (parent, token) = path.parent(root)?;
                let slot = match parent {
                    Node::Object(members) => find(members, token).map(|at| &mut members[at].1),
                    Node::Array(items) => index(token).and_then(|at| items.get_mut(at)),
                    _ => None,
                };
                *slot.ok_or(Reason::PatchFailed)? = value;
                Ok(())
            }
            Self::Move { from, path } => {
                if path.is_inside(&from) {
                    return Err(Reason::PatchFailed);
                }
                if path == from {
                    return from.get(root).map(|_| ());
                }
                let value = remove(root, &from)?;
                add(root, &path, value)
            }
            Self::Copy { from, path } => {
                let value = from.get(root)?.clone();
                add(root, &path, value)
            }
            Self::Test(path, value) => {
                if path.get(root)?.same(&value) {
                    Ok(())
                } else {
                    Err(Reason::PatchFailed)
                }
            }
        }
    }
}

fn add(root: &mut Node, path: &Pointer, value: Node) -> Result<(), Reason> {
    if path.0.is_empty() {
        *root = value;
        return Ok(());
    }
    match path.parent(root)? {
        (Node::Object(members), token) => set(members, token, value),
        (Node::Array(items), "-") => items.push(value),
        (Node::Array(items), token) => {
            let at = index(token).filter(|at| *at <= items.len()).ok_or(Reason::PatchFailed)?;
            items.insert(at, value);
        }
        _ => return Err(Reason::PatchFailed),
    }
    Ok(())
}

fn remove(root: &mut Node, path: &Pointer) -> Result<Node, Reason> {
    match path.parent(root)? {
        (Node::Object(members), token) => {
            let at = find(members, token).ok_or(Reason::PatchFailed)?;
            Ok(members.remove(at).1)
        }
        (Node::Array(items), token) => {
            let at = index(token).filter(|at| *at < items.len()).ok_or(Reason::PatchFailed)?;
            Ok(items.remove(at))
        }
        _ => Err(Reason::PatchFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 16;

    fn patched(text: &str, ops: &str) -> Result<String, Reason> {
        patch(text, &json::parse(ops).unwrap(), MAX)
    }

    fn merged(text: &str, value: &str) -> Result<String, Reason> {
        merge(text, &json::parse(value).unwrap())
    }

    #[test]
    fn s10_json_patch_operations() {
        let text = r#"{"a":1,"list":[1,2]}"#;
        let cases = [
            (r#"[{"op":"add","path":"/b","value":2}]"#, r#"{"a":1,"list":[1,2],"b":2}"#),
            (r#"[{"op":"add","path":"/list/1","value":9}]"#, r#"{"a":1,"list":[1,9,2]}"#),
            (r#"[{"op":"add","path":"/list/-","value":9}]"#, r#"{"a":1,"list":[1,2,9]}"#),
            (r#"[{"op":"remove","path":"/a"}]"#, r#"{"list":[1,2]}"#),
            (r#"[{"op":"replace","path":"","value":[]}]"#, "[]"),
            (r#"[{"op":"move","from":"/a","path":"/list/0"}]"#, r#"{"list":[1,1,2]}"#),
            (r#"[{"op":"move","from":"/a","path":"/a"}]"#, text),
            (r#"[{"op":"copy","from":"/list","path":"/b"}]"#, r#"{"a":1,"list":[1,2],"b":[1,2]}"#),
            (r#"[{"op":"test","path":"/a","value":1.0}]"#, text),
            (r#"[{"op":"add","path":"/~1~01","value":0}]"#, r#"{"a":1,"list":[1,2],"/~1":0}"#),
        ];
        for (ops, want) in cases {
            assert_eq!(patched(text, ops).as_deref(), Ok(want), "{ops}");
        }
    }

    #[test]
    fn s10_json_patch_is_all_or_nothing() {
        let text = r#"{"a":1,"list":[1]}"#;
        for ops in [
            r#"[{"op":"replace","path":"/a","value":9},{"op":"remove","path":"/nope"}]"#,
            r#"[{"op":"add","path":"/b","value":1},{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"move","from":"/a","path":"/a/b"}]"#,
            r#"[{"op":"add","path":"/list/01","value":1}]"#,
            r#"[{"op":"add","path":"/list/2","value":1}]"#,
            r#"[{"op":"add","path":"/a/b","value":1}]"#,
            r#"[{"op":"remove","path":""}]"#,
        ] {
            assert_eq!(patched(text, ops), Err(Reason::PatchFailed), "{ops}");
        }
        for ops in [r#"{}"#, r#"[1]"#, r#"[{"op":"add","path":"/a"}]"#, r#"[{"op":"add","path":"a","value":1}]"#] {
            assert_eq!(patched(text, ops), Err(Reason::Malformed), "{ops}");
        }
        assert_eq!(patched("no json", "[]"), Err(Reason::PatchFailed));
    }

    #[test]
    fn b58_proto_is_an_own_key() {
        let ops = r#"[{"op":"add","path":"/__proto__","value":1}]"#;
        assert_eq!(patched(r#"{"a":1}"#, ops).as_deref(), Ok(r#"{"a":1,"__proto__":1}"#));
        let nested = r#"[{"op":"add","path":"/__proto__/polluted","value":1}]"#;
        assert_eq!(patched(r#"{"a":1}"#, nested), Err(Reason::PatchFailed));
        let constructor = r#"[{"op":"add","path":"/constructor/prototype/polluted","value":1}]"#;
        assert_eq!(patched(r#"{"a":1}"#, constructor), Err(Reason::PatchFailed));
        assert_eq!(
            merged(r#"{"a":0}"#, r#"{"__proto__":{"polluted":1},"a":1}"#).as_deref(),
            Ok(r#"{"a":1,"__proto__":{"polluted":1}}"#)
        );
    }

    #[test]
    fn s10_json_merge_is_rfc_7396() {
        for (text, value, want) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merged(text, value).as_deref(), Ok(want), "{text} {value}");
        }
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let ops = r#"[{"op":"add","path":"/b","value":1.50}]"#;
        assert_eq!(patched(r#"{"a":1e2}"#, ops).as_deref(), Ok(r#"{"a":1e2,"b":1.50}"#));
    }

    #[test]
    fn copies_do_not_grow_without_bound() {
        let op = r#"{"op":"copy","from":"","path":"/-"}"#;
        let ops = format!("[{}]", vec![op; 100].join(","));
        assert_eq!(patched("[1]", &ops), Err(Reason::TooLarge));
    }

    #[test]
    fn large_objects_and_arrays_take_steps_in_proportion() {
        let members = |n: usize| (0..n).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
        let many = format!("{{{}}}", members(50_000));
        let merged = merged("{}", &many).unwrap();
        assert_eq!(merged.len(), many.len());
        let reversed = (0..50_000).rev().map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
        let test = format!(r#"[{{"op":"test","path":"","value":{{{reversed}}}}}]"#);
        let value = json::parse(&test).unwrap();
        assert!(patch(&many, &value, 1 << 24).is_ok());
        let zeros = format!("[{}0]", "0,".repeat(100_000));
        let removals = vec![r#"{"op":"remove","path":"/0"}"#; 2_000].join(",");
        let removals = format!("[{removals}]");
        assert_eq!(patch(&zeros, &json::parse(&removals).unwrap(), 1 << 20), Err(Reason::TooLarge));
    }

    #[test]
    fn b43_depth_stays_readable() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        let ops = r#"[{"op":"add","path":"/0","value":{}},{"op":"copy","from":"","path":"/0"}]"#;
        assert_eq!(patched(&deep, ops), Err(Reason::PatchFailed));
    }
}
