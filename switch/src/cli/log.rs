//! The log of `run`: events with levels and fields on standard error, as text or as JSON lines.
//!
//! The threads of the control plane log, and the run loop between two polls: there is no log per packet. A text is the
//! message of its event, as `wireyard: MESSAGE`; JSON has its fields beside it. Events of libraries are left out.

use std::fmt::{self, Write as _};
use std::io;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use wireyard_pipeline::diag::safe::{escape, escape_json};
use wireyard_pipeline::diag::{Diagnostics, Files, json};

use super::args::LogLevel;
use super::{colours, complain};
use crate::control::DeviceEvent;
use crate::core::{Message, Topic};
use crate::ports::{LinkState, PortNumber};
use crate::terminal;

/// Writes events of this level, and graver ones, from now on.
pub(super) fn start(level: LogLevel, is_json: bool) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let ours = Targets::new().with_target("wireyard_switch", level);
    let to = tracing_subscriber::fmt::layer().log_internal_errors(false);
    // A second subscriber would be refused: the first stays.
    let _ = if is_json {
        let json = to.json().flatten_event(true).with_current_span(false).with_span_list(false);
        let json = json.with_target(false).with_writer(ToStandardError { is_json });
        tracing_subscriber::registry().with(json.with_filter(ours)).try_init()
    } else {
        let text = to.event_format(Plain).with_writer(ToStandardError { is_json });
        tracing_subscriber::registry().with(text.with_filter(ours)).try_init()
    };
}

/// Logs a text of another part of the switch: one that begins with `warning:` as a warning.
pub(super) fn note(text: &str) {
    match text.strip_prefix("warning: ") {
        Some(text) => tracing::warn!("{text}"),
        None => tracing::info!("{text}"),
    }
}

/// The same for a text about a port.
pub(super) fn port_note(port: Option<PortNumber>, text: &str) {
    let Some(port) = port else { return note(text) };
    match text.strip_prefix("warning: ") {
        Some(text) => tracing::warn!(event = "port", port = port.0, "port {port}: {text}"),
        None => tracing::info!(event = "port", port = port.0, "port {port}: {text}"),
    }
}

/// The same for the error that ends the command, also in commands without a log.
pub(super) fn wrong(text: &str) {
    match tracing::enabled!(Level::ERROR) {
        true => tracing::error!(event = "end", "{text}"),
        false => complain(text),
    }
}

/// Logs the diagnostics of a program, an event for each.
pub(super) fn diagnostics(found: &Diagnostics, files: &Files) {
    for one in json::to_json(found, files).as_array().into_iter().flatten() {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let (code, message) = (text("code"), text("message"));
        let place = &one["place"];
        let (file, line) = (place["file"].as_str(), place["line"].as_u64());
        match one["severity"] == "error" {
            true => tracing::error!(event = "diagnostic", code, file, line, "{message}"),
            false => tracing::warn!(event = "diagnostic", code, file, line, "{message}"),
        }
    }
}

/// Logs a message of the device.
pub(super) fn message(Message { topic, text }: &Message) {
    match topic {
        Topic::Event(event) => device_event(event, text),
        Topic::Port(port) => tracing::info!(event = "port", port = port.0, "{text}"),
        Topic::PortError(port) => tracing::warn!(event = "port_error", port = port.0, "{text}"),
        Topic::Capture => tracing::error!(event = "capture", "{text}"),
        Topic::IdleEntries => tracing::info!(event = "idle_entries", "{text}"),
    }
}

fn device_event(event: &DeviceEvent, text: &str) {
    let name = event.name();
    match event {
        DeviceEvent::Link { port, state: LinkState::Up } => {
            tracing::info!(event = name, port = port.0, state = "up", "{text}");
        }
        DeviceEvent::Link { port, state } => {
            tracing::warn!(event = name, port = port.0, state = state.name(), "{text}");
        }
        DeviceEvent::PauseStorm { port, queue, over: false } => {
            let port = port.map(|port| port.0);
            tracing::warn!(event = name, port, queue, over = false, "{text}");
        }
        DeviceEvent::PauseStorm { port, queue, over: true } => {
            let port = port.map(|port| port.0);
            tracing::info!(event = name, port, queue, over = true, "{text}");
        }
        DeviceEvent::TableFull { table, over: false } => {
            tracing::warn!(event = name, table, over = false, "{text}");
        }
        DeviceEvent::TableFull { table, over: true } => {
            tracing::info!(event = name, table, over = true, "{text}");
        }
        DeviceEvent::Program { name: program } => {
            tracing::info!(event = name, program, "{text}")
        }
    }
}

/// The message of an event.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// `wireyard: MESSAGE`, as in all commands.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = Text::default();
        event.record(&mut text);
        // Names from clients may have line feeds: what follows one does not look like a message of its own.
        let text = escape(&text.0).replace('\n', "\n  ");
        match *event.metadata().level() {
            Level::ERROR if colours() => writeln!(to, "\x1b[1;31merror\x1b[0m: {text}"),
            Level::ERROR => writeln!(to, "error: {text}"),
            // A warning of the set-up; the text of an event needs no such word.
            Level::WARN if event.metadata().fields().field("event").is_none() => {
                writeln!(to, "wireyard: warning: {text}")
            }
            _ => writeln!(to, "wireyard: {text}"),
        }
    }
}

/// Writes whole lines, and ignores errors without a reader.
#[derive(Clone, Copy)]
struct ToStandardError {
    is_json: bool,
}

impl<'a> MakeWriter<'a> for ToStandardError {
    type Writer = ToStandardError;

    fn make_writer(&'a self) -> ToStandardError {
        *self
    }
}

impl io::Write for ToStandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // The text was escaped at its source, because it may have colours.
        terminal::styled(&if self.is_json { escape_json(&text) } else { text.clone() });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
