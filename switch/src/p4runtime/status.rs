//! Errors in the form of gRPC: a status, and for a write one error for each update.
//!
//! Details are sent in the trailer `grpc-status-details-bin`; most clients accept 8 KiB for all headers together. If
//! the texts of all updates do not fit, they are truncated, then omitted. If the codes do not fit either, there are no
//! details: the text of the status has the failed updates with their codes, as many as fit into it.

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use super::proto::google::rpc::Status as RpcStatus;
use super::proto::p4::v1::Error as P4Error;
use crate::control::ControlError;

/// Bytes of details that fit, with base64 and other headers taken into account.
const DETAILS_BYTES_MAX: usize = 5 << 10;
/// Bytes of the text of a status.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Lengths to which texts are truncated until all fit.
const TEXT_BYTES: [usize; 4] = [256, 80, 24, 0];

/// The gRPC code of an error.
pub fn code(error: &ControlError) -> Code {
    match error {
        ControlError::NotFound(_) | ControlError::NoEntry(_) => Code::NotFound,
        ControlError::AlreadyExists(_) | ControlError::EntryExists(_) => Code::AlreadyExists,
        ControlError::InvalidArgument(_) => Code::InvalidArgument,
        ControlError::OutOfRange(_) => Code::OutOfRange,
        ControlError::ResourceExhausted(_) => Code::ResourceExhausted,
        ControlError::PermissionDenied(_) => Code::PermissionDenied,
        ControlError::FailedPrecondition(_) => Code::FailedPrecondition,
        ControlError::Aborted(_) => Code::Aborted,
        ControlError::Unimplemented(_) => Code::Unimplemented,
        ControlError::Unavailable(_) => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// The status of a request that failed as a whole.
pub fn status(error: &ControlError) -> Status {
    status_within(error, MESSAGE_BYTES_MAX)
}

/// Like [`status`], for clients that accept more than 8 KiB of headers: most characters take one byte in a header, a
/// line feed takes three.
pub fn status_within(error: &ControlError, bytes: usize) -> Status {
    let text = error.to_string();
    let shown = cut(&text, bytes);
    Status::new(code(error), if shown.len() < text.len() { shown + " .." } else { shown })
}

fn cut(text: &str, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The status of a request with a result for each of its parts: UNKNOWN, with one error for each (specification 1.5,
/// section 10).
///
/// `what` is the name of the parts: `updates`, `reads`.
pub fn of_each(what: &str, results: &[Result<(), ControlError>]) -> Status {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let message = format!("{failed} of {} {what} failed", results.len());
    for bytes in TEXT_BYTES {
        let details = RpcStatus {
            code: Code::Unknown as i32,
            message: message.clone(),
            details: results.iter().map(|result| detail(result, bytes)).collect(),
        };
        let details = details.encode_to_vec();
        if details.len() <= DETAILS_BYTES_MAX {
            return Status::with_details(Code::Unknown, message, details.into());
        }
    }
    Status::new(Code::Unknown, in_text(message, results))
}

/// A text with the first error, and the places of failed parts with their codes, as many as fit.
fn in_text(mut text: String, results: &[Result<(), ControlError>]) -> String {
    let errors = results.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref().err()?)));
    let mut errors = errors.peekable();
    text += "; too many for details";
    if let Some((at, error)) = errors.peek() {
        text += &format!("; {at}: {}", cut(&error.to_string(), TEXT_BYTES[0]));
    }
    text += "; failed:";
    for (at, error) in errors {
        let one = format!(" {at} {:?}", code(error));
        // With room for the dots.
        if text.len() + one.len() > MESSAGE_BYTES_MAX - 3 {
            return text + " ..";
        }
        text += &one;
    }
    text
}

fn detail(result: &Result<(), ControlError>, bytes: usize) -> Any {
    let error = match result {
        Ok(()) => P4Error { canonical_code: Code::Ok as i32, ..Default::default() },
        Err(error) => P4Error {
            canonical_code: code(error) as i32,
            message: cut(&error.to_string(), bytes),
            space: String::new(),
            ..Default::default()
        },
    };
    Any { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(status: &Status) -> Vec<P4Error> {
        let details = RpcStatus::decode(status.details()).unwrap().details;
        details.iter().map(|any| P4Error::decode(any.value.as_slice()).unwrap()).collect()
    }

    #[test]
    fn each_update_has_its_error_and_texts_are_cut_to_fit() {
        let wrong = || Err(ControlError::NotFound(format!("no entry {}", "x".repeat(400))));
        let few = of_each("updates", &[Ok(()), wrong()]);
        assert_eq!(few.code(), Code::Unknown);
        let errors = details(&few);
        assert_eq!((errors[0].canonical_code, errors[1].canonical_code), (0, 5));
        assert_eq!(errors[1].message.len(), TEXT_BYTES[0]);
        let many: Vec<_> = (0..60).map(|_| wrong()).collect();
        let errors = details(&of_each("updates", &many));
        assert_eq!(errors.len(), 60);
        assert_eq!(errors[59].canonical_code, 5);
        assert!(of_each("updates", &many).details().len() <= DETAILS_BYTES_MAX);
        let flood: Vec<_> = (0..5000).map(|_| wrong()).collect();
        let status = of_each("reads", &flood);
        assert!(status.details().is_empty() && status.message().contains("5000 of 5000 reads"));
        assert!(status.message().len() <= MESSAGE_BYTES_MAX && status.message().ends_with(" .."));
        let mut few: Vec<_> = (0..1000).map(|_| Ok(())).collect();
        few[7] = wrong();
        few[999] = Err(ControlError::OutOfRange("far".into()));
        let status = of_each("updates", &few);
        assert!(status.message().ends_with("; failed: 7 NotFound 999 OutOfRange"), "{status}");
    }
}
