//! Target `packets`: any packets into any port of every program, on both engines.
//!
//! An input is a program's number, and packets: port, length (two bytes), bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wireyard_switch::ports::LinkType;
use wireyard_switch::program::Loaded;

use super::devices::Pair;
use super::text::Decisions;
use crate::scripts;

/// Packets of an input, at most.
const PACKETS_MAX: usize = 64;

type Program = (String, Loaded, Vec<(u16, LinkType)>);

thread_local! {
    /// Programs that were used: their machine code is made once.
    static PROGRAMS: RefCell<BTreeMap<usize, Program>> = const { RefCell::new(BTreeMap::new()) };
}

/// The ports of a program, and 1 to 4.
pub fn ports(loaded: &Loaded) -> Vec<(u16, LinkType)> {
    let mut ports = scripts::ports(loaded);
    for extra in 1..=4 {
        if ports.iter().all(|(number, _)| *number != extra) {
            ports.push((extra, LinkType::Ethernet));
        }
    }
    ports
}

fn with_program(number: usize, then: impl FnOnce(&Program)) {
    PROGRAMS.with_borrow_mut(|known| {
        let program = known.entry(number).or_insert_with(|| {
            let path = scripts::programs().swap_remove(number);
            let loaded = scripts::loaded(&path);
            let ports = ports(&loaded);
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), loaded, ports)
        });
        then(program);
    });
}

/// Does an input.
///
/// # Panics
/// The engines differ, or an account is not whole.
pub fn run(data: &[u8]) {
    let mut decisions = Decisions::new(data);
    let number = decisions.below(scripts::programs().len());
    with_program(number, |(name, loaded, ports)| {
        let mut pair = Pair::new(name, loaded, ports).unwrap_or_else(|why| panic!("{why}"));
        for _ in 0..PACKETS_MAX {
            if decisions.is_empty() {
                break;
            }
            let port = pair.ports()[usize::from(decisions.byte()) % pair.ports().len()];
            let len = decisions.below(1600);
            let packet: Vec<u8> = (0..len).map_while(|_| decisions.next_byte()).collect();
            pair.send(port, &packet);
        }
        pair.finish();
    });
}

/// The packets of every program's own tests.
pub fn seeds() -> Vec<Vec<u8>> {
    let of_program = |(number, path): (usize, std::path::PathBuf)| {
        let all = scripts::scripts(&path).into_iter().flat_map(|path| scripts::sent(&path).packets);
        let mut input = (number as u16).to_be_bytes().to_vec();
        for (port, bytes) in all.filter(|(_, bytes)| bytes.len() < 1600).take(PACKETS_MAX) {
            input.push(port as u8);
            input.extend((bytes.len() as u16).to_be_bytes());
            input.extend(bytes);
        }
        input
    };
    scripts::programs().into_iter().enumerate().map(of_program).collect()
}
