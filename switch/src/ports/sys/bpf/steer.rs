//! The program with which a TAP with several queues chooses one for each frame that the host sends: a hash of the flow.
//!
//! It hashes addresses, protocol and ports of IPv4, and addresses and ports of IPv6, in one direction; of a fragment it
//! omits the ports, so that all fragments between two hosts use one queue. Everything else (ARP, other protocols, a tag
//! that the host left in the frame) goes to the first queue. A frame that is too short for a load ends the program with
//! 0, which is also the first queue.

use std::io;
use std::os::fd::OwnedFd;

use super::{
    BPF_PROG_LOAD, EXIT, Instruction, LOAD_DOUBLE_IMMEDIATE, MOVE, MOVE_CONSTANT, ProgramLoad, bpf,
    instruction, owned,
};

// Instruction codes (Documentation/bpf/standardization/instruction-set.rst).
const LOAD_FRAME_BYTE: u8 = 0x30;
const LOAD_FRAME_HALF: u8 = 0x28;
const LOAD_FRAME_WORD: u8 = 0x20;
const LOAD_FRAME_WORD_BEHIND: u8 = 0x40;
const XOR: u8 = 0xaf;
const MULTIPLY: u8 = 0x2f;
const AND_CONSTANT: u8 = 0x57;
const SHIFT_LEFT_CONSTANT: u8 = 0x67;
const SHIFT_RIGHT_CONSTANT: u8 = 0x77;
const JUMP: u8 = 0x05;
const JUMP_EQUAL_CONSTANT: u8 = 0x15;
const JUMP_NOT_CONSTANT: u8 = 0x55;

/// Mixes the value in register 0 into the hash in register 7, with the odd constant in register 9.
fn mix(code: &mut Vec<Instruction>) {
    code.push(instruction(XOR, 7, 0, 0, 0));
    code.push(instruction(MULTIPLY, 7, 9, 0, 0));
    // Fold the upper half into the lower: the low bits of a product depend on the low bits of its factors only.
    code.push(instruction(MOVE, 1, 7, 0, 0));
    code.push(instruction(SHIFT_RIGHT_CONSTANT, 1, 0, 0, 32));
    code.push(instruction(XOR, 7, 1, 0, 0));
}

/// Loads the words of the frame at fixed offsets and mixes each.
fn mix_words(code: &mut Vec<Instruction>, places: &[i32]) {
    for place in places {
        code.push(instruction(LOAD_FRAME_WORD, 0, 0, 0, *place));
        mix(code);
    }
}

/// A jump whose offset is set later, when its target is known.
fn jump_later(code: &mut Vec<Instruction>, operation: u8, register: u8, constant: i32) -> usize {
    code.push(instruction(operation, register, 0, 0, constant));
    code.len() - 1
}

fn aim(code: &mut [Instruction], jump: usize) {
    let target = code.len();
    code[jump].offset = (target - jump - 1) as i16;
}

fn program() -> Vec<Instruction> {
    let mut code = vec![
        // Loads of frame bytes need the context in register 6.
        instruction(MOVE, 6, 1, 0, 0),
        instruction(MOVE_CONSTANT, 7, 0, 0, 0),
        instruction(LOAD_DOUBLE_IMMEDIATE, 9, 0, 0, 0x7f4a_7c15),
        instruction(0, 0, 0, 0, 0x9e37_79b9_u32 as i32),
        instruction(LOAD_FRAME_HALF, 0, 0, 0, 12),
    ];
    let v6 = jump_later(&mut code, JUMP_EQUAL_CONSTANT, 0, 0x86dd);
    let other = jump_later(&mut code, JUMP_NOT_CONSTANT, 0, 0x0800);
    mix_words(&mut code, &[26, 30]);
    code.push(instruction(LOAD_FRAME_BYTE, 0, 0, 0, 23));
    mix(&mut code);
    code.push(instruction(MOVE, 8, 0, 0, 0));
    code.push(instruction(LOAD_FRAME_HALF, 0, 0, 0, 20));
    code.push(instruction(AND_CONSTANT, 0, 0, 0, 0x3fff));
    let fragment = jump_later(&mut code, JUMP_NOT_CONSTANT, 0, 0);
    let tcp = jump_later(&mut code, JUMP_EQUAL_CONSTANT, 8, libc::IPPROTO_TCP);
    let no_ports = jump_later(&mut code, JUMP_NOT_CONSTANT, 8, libc::IPPROTO_UDP);
    aim(&mut code, tcp);
    // The ports follow the header, whose length is in words.
    code.push(instruction(LOAD_FRAME_BYTE, 0, 0, 0, 14));
    code.push(instruction(AND_CONSTANT, 0, 0, 0, 0xf));
    code.push(instruction(SHIFT_LEFT_CONSTANT, 0, 0, 0, 2));
    code.push(instruction(MOVE, 8, 0, 0, 0));
    code.push(instruction(LOAD_FRAME_WORD_BEHIND, 0, 8, 0, 14));
    mix(&mut code);
    let v4_done = jump_later(&mut code, JUMP, 0, 0);
    aim(&mut code, v6);
    mix_words(&mut code, &[22, 26, 30, 34, 38, 42, 46, 50]);
    code.push(instruction(LOAD_FRAME_BYTE, 0, 0, 0, 20));
    let tcp = jump_later(&mut code, JUMP_EQUAL_CONSTANT, 0, libc::IPPROTO_TCP);
    let v6_no_ports = jump_later(&mut code, JUMP_NOT_CONSTANT, 0, libc::IPPROTO_UDP);
    aim(&mut code, tcp);
    mix_words(&mut code, &[54]);
    for jump in [other, fragment, no_ports, v4_done, v6_no_ports] {
        aim(&mut code, jump);
    }
    code.push(instruction(MOVE, 0, 7, 0, 0));
    code.push(instruction(EXIT, 0, 0, 0, 0));
    code
}

/// Loads the program.
///
/// # Errors
/// EPERM without CAP_BPF.
pub fn by_flow() -> io::Result<OwnedFd> {
    const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
    let code = program();
    let attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_SOCKET_FILTER,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..ProgramLoad::default()
    };
    bpf(BPF_PROG_LOAD, &attributes).map(owned)
}
