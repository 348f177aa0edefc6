//! JSON merge patches (RFC 7386) between two objects.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the patch from `seen` to `want`. It is empty if they are equal.
pub fn between<T: Serialize>(seen: &T, want: &T) -> Result<Map<String, Value>, serde_json::Error> {
    match (serde_json::to_value(seen)?, serde_json::to_value(want)?) {
        (Value::Object(seen), Value::Object(want)) => Ok(difference(&seen, want)),
        _ => Ok(Map::new()),
    }
}

fn difference(seen: &Map<String, Value>, want: Map<String, Value>) -> Map<String, Value> {
    let mut patch: Map<String, Value> = seen
        .keys()
        .filter(|key| !want.contains_key(*key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    for (key, want) in want {
        match (seen.get(&key), want) {
            (Some(Value::Object(seen)), Value::Object(want)) => {
                let inner = difference(seen, want);
                if !inner.is_empty() {
                    patch.insert(key, Value::Object(inner));
                }
            }
            (Some(seen), want) if *seen == want => {}
            (_, want) => {
                patch.insert(key, want);
            }
        }
    }
    patch
}

/// Reports whether a patch contains a list. A list in a merge patch replaces the whole list.
pub fn has_list(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::between;

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let seen = json!({"same": {"a": 1}, "gone": 1, "list": [1, 2], "deep": {"a": 1, "b": 2}});
        let want = json!({"same": {"a": 1}, "list": [1, 3], "deep": {"a": 1, "b": 3}, "new": true});
        let patch = between(&seen, &want).unwrap();
        assert_eq!(
            serde_json::Value::from(patch),
            json!({"gone": null, "list": [1, 3], "deep": {"b": 3}, "new": true})
        );
    }

    #[test]
    fn equal_objects_make_an_empty_patch() {
        let object = json!({"a": {"b": [1]}});
        assert!(between(&object, &object).unwrap().is_empty());
    }
}
