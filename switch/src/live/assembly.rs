//! The ports of a switch on its workers: who opens which, records where, and gets which queues.
//!
//! Ports take turns: the first worker has the first port, the second the second. Every other worker has the port's place. It starts
//! no thread and moves nothing; that is [`super::Workers`].

use std::thread;
use std::time::Duration;

use wireyard_tables::time::Time;

use super::record;
use crate::config::qos::Part;
use crate::core::Core;
use crate::ports::absent::AbsentPort;
use crate::ports::{self, PortSpec};
use crate::program::Loaded;

/// How often, and how many times, a link without a carrier is looked at before the switch runs: for a second and a half, as the kernel may
/// tell of a carrier a second late.
const CARRIER_LOOK: Duration = Duration::from_millis(10);
const CARRIER_LOOKS: usize = 150;

/// Numbered ports, to be divided among workers.
#[derive(Clone, Copy, Debug)]
pub struct Assembly<'a> {
    specs: &'a [(u16, PortSpec)],
    workers: usize,
}

impl<'a> Assembly<'a> {
    /// These ports on so many workers; nothing is opened.
    ///
    /// # Errors
    /// A worker would have no port, or two workers one capture file.
    pub fn new(specs: &'a [(u16, PortSpec)], workers: usize) -> Result<Assembly<'a>, String> {
        let ports = specs.len();
        if workers > ports {
            return Err(format!(
                "--workers {workers}: each worker has ports of its own, and there are {ports}: use --workers {ports}"
            ));
        }
        let assembly = Assembly { specs, workers };
        assembly.check_captures()?;
        Ok(assembly)
    }

    /// Opens each port at its worker, and then gives every worker its queues and begins capture files. `tell` gets notices for the user.
    ///
    /// # Errors
    /// A port or its capture file cannot be opened, or the queues do not fit these ports.
    pub fn build(
        &self,
        loaded: &Loaded,
        cores: &mut [Core],
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        self.open(cores, tell)?;
        await_carriers(cores);
        self.set_queues(loaded, cores)?;
        // Last: this empties files.
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            record(&mut cores[self.owner(place)], *number, spec)?;
        }
        Ok(())
    }

    /// The worker of the port at this place.
    fn owner(&self, place: usize) -> usize {
        place % self.workers.max(1)
    }

    /// Opens each port at its worker; the others get its place.
    fn open(&self, cores: &mut [Core], tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            let mine = self.owner(place);
            let core = &mut cores[mine];
            let opened = ports::open(spec, core.memory()).map_err(|error| error.to_string())?;
            core.add_port(*number, opened.port)?;
            for notice in opened.notices {
                tell(&format!("port {number}: {notice}"));
            }
            let Some(port) = cores[mine].port(*number) else { continue };
            let absent = AbsentPort::like(port);
            for (_, core) in cores.iter_mut().enumerate().filter(|(worker, _)| *worker != mine) {
                core.add_elsewhere(*number, mine as u8, absent.clone())?;
            }
        }
        Ok(())
    }

    /// Ports of several workers cannot write into one capture file.
    fn check_captures(&self) -> Result<(), String> {
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            let same = |(other, (_, known)): &(usize, &(u16, PortSpec))| {
                known.capture == spec.capture && self.owner(*other) != self.owner(place)
            };
            let earlier = self.specs.iter().enumerate().take(place).find(same);
            if let (Some(_), Some((_, (earlier, _)))) = (&spec.capture, earlier) {
                return Err(format!(
                    "ports {earlier} and {number} belong to different workers and cannot share a capture \
                     file: give each its own (1=veth0,capture=FILE), or use --workers 1"
                ));
            }
        }
        Ok(())
    }

    /// Gives every worker its queues.
    fn set_queues(&self, loaded: &Loaded, cores: &mut [Core]) -> Result<(), String> {
        let numbers: Vec<u16> = self.specs.iter().map(|(number, _)| *number).collect();
        for (worker, core) in cores.iter_mut().enumerate() {
            let owns = |number: u16| {
                let place = numbers.iter().position(|known| *known == number);
                place.is_some_and(|place| self.owner(place) == worker)
            };
            let part = (self.workers > 1).then_some(Part { workers: self.workers, owns: &owns });
            loaded.set_queues_of(core, &numbers, part.as_ref())?;
        }
        Ok(())
    }
}

/// Waits a moment for the carriers of links that were just made: the system says a while after it is there that it is, and a port
/// without one drops what is for it. A link whose peer is down is not waited for longer.
fn await_carriers(cores: &mut [Core]) {
    for _ in 0..CARRIER_LOOKS {
        // Every port is asked each time: the question is what makes it look at its carrier.
        let waiting =
            cores.iter_mut().filter_map(|core| core.waits_for_carrier(Time::ZERO).then_some(()));
        if waiting.count() == 0 {
            return;
        }
        thread::sleep(CARRIER_LOOK);
    }
}
