//! Interfaces whose administrator gave them a queueing discipline (tc(8)), which frames of a port bypass.
//!
//! `simple-switch-grpc`, and `run` where it is asked to, give such a port the discipline's rate and a queue as long as bmv2's: bmv2 sends
//! through the discipline and its queue fills behind it, which the exercises about ECN and queue depths measure. Otherwise `run` warns, and
//! names what to write.

use std::fmt::Write;

use super::super::Failure;
use super::Numbered;
use crate::cli::args::RunArgs;
use crate::ports::discipline::{self, Discipline};
use crate::ports::{Medium, PortNumber};
use crate::program::Loaded;
use crate::units::BitsPerSec;

/// Length of a queue: 64 packets of 1500 bytes, as many as a queue of bmv2 holds.
const QUEUE: &str = "96 KB";

/// The program with queues for ports on shaped interfaces, where the switch takes their rates.
pub(super) fn queues(
    args: &RunArgs,
    mut loaded: Loaded,
    specs: &[Numbered],
) -> Result<Loaded, Failure> {
    let has_queues = loaded.config.as_ref().is_some_and(|config| config.queues(&[]).is_some());
    let takes_rates = args.rates_of_interfaces && !has_queues;
    let mut rates = String::new();
    for (number, interface, Discipline { kind, rate }) in specs.iter().filter_map(discipline_of) {
        match rate {
            Some(rate) if takes_rates => {
                tracing::info!(
                    "port {number}: {rate} with a queue of {QUEUE}, the rate of {kind} at {interface}"
                );
                writeln!(rates, "    {number}: {{ rate: {rate} }}")?;
            }
            _ if has_rate(&loaded, number) => {}
            _ => tracing::warn!("{}", bypassed(number, interface, &kind, rate)),
        }
    }
    if rates.is_empty() {
        return Ok(loaded);
    }
    let text = format!(
        "\
qos:
  buffer_pools:
    in: {{ direction: ingress, size: 12 MB }}
    out: {{ direction: egress, size: 12 MB }}
  buffer_profiles:
    ingress_lossy: {{ pool: in, dynamic_th: 3 }}
    egress_lossy: {{ pool: out, static_th: {QUEUE} }}
  ports:
{rates}"
    );
    let rejected = |why| format!("queues of the shaped interfaces:\n{why}");
    let without = loaded.config.take();
    let mut loaded = loaded.with_config("shaped_interfaces.yaml", &text).map_err(rejected)?;
    if let Some(mut config) = without {
        config.qos = loaded.config.and_then(|shaped| shaped.qos);
        loaded.config = Some(config);
    }
    Ok(loaded)
}

/// The discipline that frames of a port bypass. What cannot be read is not reported: the port itself reports what is wrong with it.
fn discipline_of((number, spec): &Numbered) -> Option<(PortNumber, &str, Discipline)> {
    let is_interface = spec.kind.medium() == Medium::Interface;
    let found = is_interface.then(|| discipline::of(&spec.target).ok().flatten())??;
    Some((*number, &spec.target, found))
}

/// Whether the configuration has a rate for a port.
fn has_rate(loaded: &Loaded, number: PortNumber) -> bool {
    let queues = loaded.config.as_ref().and_then(|config| config.queues(&[number])?.ok());
    let mut ports = queues.iter().flat_map(|queues| &queues.ports);
    ports.any(|port| port.number == number && port.tm.rate.is_some())
}

fn bypassed(number: PortNumber, interface: &str, kind: &str, rate: Option<BitsPerSec>) -> String {
    let remedy = match rate {
        Some(rate) => format!("write `rate: {rate}` for port {number} in switch.yaml"),
        None => "put it on the other end of the link".to_owned(),
    };
    format!(
        "port {number}: frames bypass the queueing discipline of {interface} ({kind}), which neither shapes nor delays them: {remedy}"
    )
}
