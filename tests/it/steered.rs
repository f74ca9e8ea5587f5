//! A running switch that is steered by commands, over its unix socket, with packets as witnesses.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

mod completion;
mod files;
mod filled;
mod log;
mod notices;
mod pages;
mod program;
mod saves;
mod socket;
mod traces;
mod words;

use wireyard_tests::live::Switch;

use crate::rig::{Wire, ip, veth};

/// A program with every kind of object.
const PROGRAM: &str = "tests/data/p4runtime/program.yaml";
const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn frame(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    [&dst[..], &src, &[0x12, 0x34], &[0; 50]].concat()
}

/// A switch between two ports, and the far ends of these.
struct Rig {
    switch: Switch,
    wires: [Wire; 2],
}

fn rig(program: &str, more: &[&str]) -> Rig {
    ip("link set lo up");
    veth("a0", "a1");
    veth("b0", "b1");
    let switch = Switch::on(program, &["1=raw:a1", "2=raw:b1"], more);
    Rig { switch, wires: [Wire::open("raw:a0"), Wire::open("raw:b0")] }
}

impl Rig {
    /// A command that succeeds.
    #[track_caller]
    fn does(&self, words: &str) {
        let ended = self.switch.command(&split(words));
        assert_eq!(ended.status, Some(0), "{words}: {}", ended.err);
    }

    /// A command that is refused with this reason.
    #[track_caller]
    fn refuses(&self, words: &str, reason: &str) {
        let ended = self.switch.command(&split(words));
        assert_eq!(ended.status, Some(2), "{words}: {}", ended.out);
        assert!(ended.err.contains(reason), "{words}: {}", ended.err);
    }

    /// What comes out of port 2 for a frame into port 1.
    fn passes(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.wires[0].send(&[bytes.to_vec()]);
        let wire = &mut self.wires[1];
        (0..10).map(|_| wire.receive(1)).find(|frames| !frames.is_empty()).unwrap_or_default()
    }

    /// Nothing comes out of port 2 for a frame into port 1.
    #[track_caller]
    fn stops(&mut self, bytes: &[u8]) {
        self.wires[0].send(&[bytes.to_vec()]);
        assert!(self.wires[1].receive_unexpected().is_empty());
    }
}

/// Words of a command: a part in apostrophes is one.
fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (n, part) in text.split('\'').enumerate() {
        match n % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}
