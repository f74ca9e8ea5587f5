//! Words of the command line as documents of entries.yaml.

use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use wireyard_pipeline::source::{ReadError, read_text};

use crate::cli::args::whole;
use crate::management::service::REQUEST_BYTES_MAX;

/// A document as YAML: numbers stay plain where they are keys, all other texts are quoted.
pub(super) fn yaml(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| {
                let is_number = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
                let key =
                    if is_number { key.clone() } else { Value::from(key.as_str()).to_string() };
                format!("{key}: {}", yaml(value))
            });
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(yaml).collect();
            format!("[ {} ]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// The name and the text of a file, no longer than a request may be; `-` is standard input.
pub(super) fn file(path: &Path) -> Result<(String, String), String> {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let most = REQUEST_BYTES_MAX as u64;
    let text = if is_input {
        let mut bytes = Vec::new();
        match std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes) {
            Ok(count) if count as u64 > most => Err(ReadError::TooLarge(most).to_string()),
            Ok(_) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    } else {
        read_text(path, most).map_err(|error| format!("{error} (`-` reads standard input)"))
    };
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    Ok((name, text))
}

/// `KEY=VALUE` words as a map; the first `=` separates, so that a value may have one.
pub(super) fn pairs(words: &[String]) -> Result<Map<String, Value>, String> {
    let pair = |word: &String| match word.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), Value::from(value.trim())))
        }
        _ => Err(format!("`{word}`: write KEY=VALUE")),
    };
    once(words.iter().map(pair))
}

/// The pairs as a map, in which each key is once.
fn once(
    pairs: impl Iterator<Item = Result<(String, Value), String>>,
) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for pair in pairs {
        let (key, value) = pair?;
        if let Some(first) = all.insert(key.clone(), value) {
            return Err(format!("`{key}` is given twice, first as {first}: give it once"));
        }
    }
    Ok(all)
}

/// An action with its arguments, of which the first word is the name: `forward 2`, `forward(2)`.
pub(super) fn call(words: &[String]) -> Result<String, String> {
    match words {
        [] => Err("there is no action: write its name, and its arguments behind it".into()),
        [whole] => Ok(whole.clone()),
        [name, args @ ..] if name.contains('(') => {
            Err(format!("`{name}` has its arguments already: what is `{}`?", args.join(" ")))
        }
        [name, args @ ..] => Ok(format!("{name}({})", args.join(", "))),
    }
}

/// The keys, and the action from the first word on that is no KEY=VALUE.
pub(super) fn split(words: &[String]) -> (&[String], &[String]) {
    let is_pair = |word: &&String| {
        word.find('=') < word.find('(') && word.contains('=')
            || word.contains('=') && !word.contains('(')
    };
    words.split_at(words.iter().take_while(is_pair).count())
}

/// Whether a word can be the name of an action, with arguments or without.
pub(super) fn may_be_action(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && !word.split('(').next().is_some_and(|name| name.contains(['/', ':']))
}

/// Rates of a meter: `cir=10Mbit/s,cbs=16KB`, or as words.
pub(super) fn rates(words: &[String]) -> Result<Value, String> {
    let parts = words.iter().flat_map(|word| word.split(',')).map(|part| part.trim().to_owned());
    pairs(&parts.collect::<Vec<_>>()).map(Value::from)
}

/// Members of a group with their weights: `3`, or `3*2`.
pub(super) fn members(words: &[String]) -> Result<Value, String> {
    let number = |text: &str| whole(text.trim());
    let member = |word: &String| {
        let parsed = match word.split_once('*') {
            Some((member, weight)) => number(member).and_then(|m| Ok((m, number(weight)?))),
            None => number(word).map(|member| (member, 1)),
        };
        let wrong = |_| format!("`{word}`: write a member as in 3, or 3*2 with its weight");
        parsed.map(|(member, weight)| (member.to_string(), weight.into())).map_err(wrong)
    };
    once(words.iter().map(member)).map(Value::from)
}

/// A member of a value set: `VALUE`, or `KEY=VALUE,KEY=VALUE` of a set with several keys.
pub(super) fn set_member(text: &str) -> Result<Value, String> {
    let parts: Vec<String> = text.split(',').map(str::to_owned).collect();
    match parts.iter().all(|part| part.contains('=')) {
        true => pairs(&parts).map(Value::Object),
        false => Ok(text.into()),
    }
}

/// A copy of a multicast packet: `3`, or `3:5` with its instance.
pub(super) fn replica(word: &str) -> Result<Value, String> {
    let Some((port, instance)) = word.split_once(':') else { return Ok(Value::from(word)) };
    let instance =
        whole(instance).map_err(|_| format!("`{word}`: write a port, or PORT:INSTANCE"))?;
    Ok(json!({ "port": port, "instance": instance }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn keys_come_before_the_action() {
        let all = words("a.b=1 &&& 3|c=02:00:00:00:00:01|forward|2|3");
        let (keys, action) = split(&all);
        assert_eq!(keys.len(), 2);
        assert_eq!(call(action).unwrap(), "forward(2, 3)");
        let all = words("a=1|forward(x == 1)");
        assert_eq!(call(split(&all).1).unwrap(), "forward(x == 1)");
        assert!(call(&words("forward(1)|2")).is_err() && call(&[]).is_err());
    }

    #[test]
    fn texts_are_quoted_and_numbers_as_keys_are_not() {
        let document = json!({ "registers": { "seen": { "3": { "value": "a\"b: {" } } } });
        assert_eq!(
            yaml(&document),
            r#"{ "registers": { "seen": { 3: { "value": "a\"b: {" } } } }"#
        );
        assert_eq!(members(&words("1|3*2")).unwrap(), json!({ "1": 1, "3": 2 }));
        assert!(members(&words("x")).is_err() && replica("1:x").is_err());
        // Numbers are those of entries.yaml everywhere.
        assert_eq!(members(&words("0x10|3*0x2")).unwrap(), json!({ "16": 1, "3": 2 }));
        assert_eq!(replica("1:0x10").unwrap(), json!({ "port": "1", "instance": 16 }));
    }

    #[test]
    fn what_is_given_twice_is_refused() {
        for wrong in [
            pairs(&words("dst=1|dst=2")).map(Value::from),
            members(&words("1|2|1")),
            rates(&words("cir=1,cir=2")),
            set_member("port=1,port=2"),
        ] {
            assert!(wrong.unwrap_err().contains("is given twice"));
        }
        assert_eq!(set_member("port=1,src=2").unwrap(), json!({ "port": "1", "src": "2" }));
        assert_eq!(set_member("8000..8999").unwrap(), json!("8000..8999"));
    }
}
