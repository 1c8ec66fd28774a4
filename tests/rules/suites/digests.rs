//! §11 against two independent implementations.

use patchkeep_core::canonical;
use proptest::prelude::*;

fn json() -> impl Strategy<Value = serde_json::Value> {
    let number = prop_oneof![
        any::<i32>().prop_map(serde_json::Value::from),
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Into::into)),
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        number,
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(serde_json::Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn s11_canonical_form_agrees_with_two_other_implementations(value in json()) {
        let text = value.to_string();
        // Both others read numbers as doubles; a literal of ours is refused where a double would change it.
        if let Ok(ours) = canonical::canonicalize(&text) {
            prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
            prop_assert_eq!(&ours, &serde_jcs::to_string(&value).unwrap());
            let again = canonical::canonicalize(&ours);
            prop_assert_eq!(again.as_ref(), Ok(&ours), "a canonical form is its own");
        }
    }

    #[test]
    fn b30_random_doubles_keep_their_bits(bits: u64) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let canonical = canonical::canonicalize(&format!("{number:e}")).unwrap();
        prop_assert_eq!(canonical.parse::<f64>().unwrap(), number);
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text: String) {
        let _ = canonical::canonicalize(&text);
        let _ = patchkeep_core::frame::ServerFrame::decode(&text);
        let _ = patchkeep_core::frame::TabFrame::decode(&text);
    }
}
