//! What a target does with values that are saved as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "json.rs"]
mod json;

/// What is read is written and read again.
pub fn read<T: Serialize + DeserializeOwned>(input: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(input).ok()?;
    let again = serde_json::to_string(&value).expect("what was read can be written");
    serde_json::from_str::<T>(&again).expect("what was written can be read");
    Some(value)
}
