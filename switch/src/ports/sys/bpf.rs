//! A small XDP program that hands frames to an AF_XDP socket, loaded by the raw bpf(2) system call.
//!
//! A VLAN tag that the sender's kernel (a veth peer) or the card keeps beside the frame is not part of the frame that
//! an AF_XDP socket receives. Where the driver can report it, the program reads it and stores it in front of the frame
//! ([`read_tag`]).
//!
//! Program, map and attachment are file descriptors: when the process ends, in any way, the interface is as it was
//! before. While the process runs, a program is detached, not only closed ([`Link`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::btf::kernel_function;

pub mod steer;

// include/uapi/linux/bpf.h
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_LINK_DETACH: i32 = 34;
/// The commands that a switch uses: none that traces the kernel, or asks for programs and maps of others.
pub const COMMANDS: [i32; 5] =
    [BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, BPF_LINK_CREATE, BPF_LINK_DETACH];
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_PASS: i32 = 2;
const FUNC_REDIRECT_MAP: i32 = 51;
const FUNC_ADJUST_META: i32 = 54;
const KERNEL_FUNC_VLAN_TAG: &str = "bpf_xdp_metadata_rx_vlan_tag";
// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;

/// Bytes before a frame in which the program stores the tag; the receiver clears them beforehand.
pub const TAG_RECORD_BYTES: usize = 8;

/// The hook at which the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel makes a packet of its own.
    Native,
    /// After it: works on any interface, and is slower.
    Generic,
}

/// `struct bpf_insn`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: dst | src << 4, offset, immediate }
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
    flags: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ProgramRun {
    program: u32,
    result: u32,
    bytes_in: u32,
    bytes_out: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _pad: u32,
}

fn bpf<T: Copy>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: `attributes` is the prefix of `union bpf_attr` that belongs to `command`, of the stated
    // size; every pointer in it points at data that its caller keeps alive through the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: `fd` is the new descriptor that the bpf system call has just returned.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map from receive queue to AF_XDP socket.
#[derive(Debug)]
pub struct SocketMap(OwnedFd);

impl SocketMap {
    /// An empty map for queues 0 to `queues - 1`.
    ///
    /// # Errors
    /// EPERM without CAP_BPF, ENOMEM.
    pub fn new(queues: u32) -> io::Result<SocketMap> {
        let attributes = MapCreate {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_bytes: 4,
            value_bytes: 4,
            max_entries: queues,
            flags: 0,
        };
        bpf(BPF_MAP_CREATE, &attributes).map(|fd| SocketMap(owned(fd)))
    }

    /// Sends frames of `queue` to `socket` from now on.
    ///
    /// # Errors
    /// A queue beyond the map, a socket that is not bound.
    pub fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let attributes = MapUpdate {
            map: self.0.as_raw_fd() as u32,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            ..MapUpdate::default()
        };
        bpf(BPF_MAP_UPDATE_ELEM, &attributes).map(drop)
    }
}

/// Reads the tag record before a frame: tag protocol and control information.
pub fn read_tag(record: &[u8; TAG_RECORD_BYTES]) -> Option<(u16, u16)> {
    let [p0, p1, c0, c1, valid @ ..] = *record;
    // The kernel stores the protocol in network order, the rest in the host's.
    let tag = (u16::from_be_bytes([p0, p1]), u16::from_ne_bytes([c0, c1]));
    (u32::from_ne_bytes(valid) == 1).then_some(tag)
}

/// A program on an interface. It is detached when this is dropped, even while a copy of the descriptor exists: a child
/// process forked by another thread has one until it executes its program.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    fn new<T: Copy>(attributes: &T) -> io::Result<Link> {
        bpf(BPF_LINK_CREATE, attributes).map(|fd| Link(owned(fd)))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // ENOLINK if the interface is gone: then there is nothing to detach.
        let _ = bpf(BPF_LINK_DETACH, &(self.0.as_raw_fd() as u32));
    }
}

/// An attached program; it is detached when this is dropped.
#[derive(Debug)]
pub struct Attachment {
    _link: Link,
    /// The program stores VLAN tags before the frames.
    pub stores_tags: bool,
}

/// Attaches the program to an interface: frames of a queue in `map` go to its socket, all others to the kernel.
/// `frags`: frames of more than one page are accepted too.
///
/// # Errors
/// EPERM; EBUSY if another program is attached; EOPNOTSUPP, EINVAL or ERANGE where the driver does not support this
/// mode or MTU.
pub fn attach(map: &SocketMap, index: u32, mode: XdpMode, frags: bool) -> io::Result<Attachment> {
    // Only a driver can report the tag, and only to a program that is bound to its device.
    let function = match mode {
        XdpMode::Native => kernel_function(KERNEL_FUNC_VLAN_TAG),
        XdpMode::Generic => None,
    };
    if let Some(function) = function {
        let code = [store_tag(function).as_slice(), &redirect(map)].concat();
        let program = load(&code, frags, Some(index));
        if let Ok(link) = program.and_then(|program| link(&program, index, mode)) {
            return Ok(Attachment { _link: link, stores_tags: true });
        }
    }
    let code = [[SAVE_CONTEXT].as_slice(), &redirect(map)].concat();
    let program = load(&code, frags, None)?;
    Ok(Attachment { _link: link(&program, index, mode)?, stores_tags: false })
}

fn link(program: &OwnedFd, interface: u32, mode: XdpMode) -> io::Result<Link> {
    let flags = match mode {
        XdpMode::Native => XDP_FLAGS_DRV_MODE,
        XdpMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let program = program.as_raw_fd() as u32;
    let attributes = LinkCreate { program, interface, attach_type: BPF_XDP, flags };
    Link::new(&attributes)
}

/// Adds a VLAN tag, beside the frame, to every frame that leaves by an interface, until this is dropped: as a VLAN
/// device does, for tests on kernels without one.
///
/// # Errors
/// EPERM; EINVAL before Linux 6.6.
pub fn tag_on_egress(index: u32, protocol: u16, control: u16) -> io::Result<Link> {
    const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
    const BPF_TCX_EGRESS: u32 = 47;
    const FUNC_SKB_VLAN_PUSH: i32 = 18;
    const TCX_NEXT: i32 = -1;
    let code = [
        instruction(MOVE_CONSTANT, 2, 0, 0, i32::from(protocol.to_be())),
        instruction(MOVE_CONSTANT, 3, 0, 0, i32::from(control)),
        instruction(CALL, 0, 0, 0, FUNC_SKB_VLAN_PUSH),
        instruction(MOVE_CONSTANT, 0, 0, 0, TCX_NEXT),
        instruction(EXIT, 0, 0, 0, 0),
    ];
    let attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_SCHED_CLS,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type: BPF_TCX_EGRESS,
        ..ProgramLoad::default()
    };
    let loaded = bpf(BPF_PROG_LOAD, &attributes).map(owned)?;
    let program = loaded.as_raw_fd() as u32;
    // `union bpf_attr` has further fields for this type of link, all zero.
    let link = LinkCreate { program, interface: index, attach_type: BPF_TCX_EGRESS, flags: 0 };
    Link::new(&[link, LinkCreate::default()])
}

/// Sends frames by an interface at the speed of the kernel, without allocating a packet for each: faster than any
/// switch in user space receives, for measurements. The interface's peer must have a native XDP program.
#[derive(Debug)]
pub struct LiveFrames {
    program: OwnedFd,
    frame: Vec<u8>,
}

impl LiveFrames {
    /// Prepares `frame`, to leave by the interface of this index.
    ///
    /// # Errors
    /// EPERM.
    pub fn new(index: u32, frame: &[u8]) -> io::Result<LiveFrames> {
        const FUNC_REDIRECT: i32 = 23;
        let code = [
            instruction(MOVE_CONSTANT, 1, 0, 0, index as i32),
            instruction(MOVE_CONSTANT, 2, 0, 0, 0),
            instruction(CALL, 0, 0, 0, FUNC_REDIRECT),
            instruction(EXIT, 0, 0, 0, 0),
        ];
        Ok(LiveFrames { program: load(&code, false, None)?, frame: frame.to_vec() })
    }

    /// Sends `count` frames; those for which the peer has no room are lost.
    ///
    /// # Errors
    /// EINVAL before Linux 5.18.
    pub fn send(&self, count: u32) -> io::Result<()> {
        const BPF_PROG_TEST_RUN: i32 = 10;
        const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
        let attributes = ProgramRun {
            program: self.program.as_raw_fd() as u32,
            bytes_in: self.frame.len() as u32,
            input: self.frame.as_ptr() as u64,
            repeat: count,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            ..ProgramRun::default()
        };
        bpf(BPF_PROG_TEST_RUN, &attributes).map(drop)
    }
}

// Instruction codes (Documentation/bpf/standardization/instruction-set.rst).
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_WIDE: u8 = 0x18;
/// The same code without a map: a constant of eight bytes, in two instructions.
const LOAD_DOUBLE_IMMEDIATE: u8 = 0x18;
const STORE_HALF: u8 = 0x6b;
const STORE_WORD_CONSTANT: u8 = 0x62;
const STORE_DOUBLE_CONSTANT: u8 = 0x7a;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const ADD_CONSTANT: u8 = 0x07;
const JUMP_NOT_CONSTANT: u8 = 0x55;
const JUMP_GREATER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_KERNEL_FUNC: u8 = 2;

/// Both parts below use the context in register 6, which calls preserve.
const SAVE_CONTEXT: Instruction = instruction(MOVE, 6, 1, 0, 0);

/// Makes room before the frame, reads the tag from the driver, and stores it in the form of [`read_tag`]. On any
/// failure it continues behind its last instruction.
fn store_tag(function: i32) -> [Instruction; 29] {
    let record = TAG_RECORD_BYTES as i32;
    [
        SAVE_CONTEXT,
        instruction(MOVE_CONSTANT, 2, 0, 0, -record),
        instruction(CALL, 0, 0, 0, FUNC_ADJUST_META),
        instruction(JUMP_NOT_CONSTANT, 0, 0, 25, 0),
        // if data_meta + 8 > data: end
        instruction(LOAD_WORD, 1, 6, DATA_META, 0),
        instruction(LOAD_WORD, 2, 6, DATA, 0),
        instruction(MOVE, 3, 1, 0, 0),
        instruction(ADD_CONSTANT, 3, 0, 0, record),
        instruction(JUMP_GREATER, 3, 2, 20, 0),
        instruction(STORE_DOUBLE_CONSTANT, 1, 0, 0, 0),
        // bpf_xdp_metadata_rx_vlan_tag(ctx, &stack[-8], &stack[-16])
        instruction(STORE_DOUBLE_CONSTANT, 10, 0, -8, 0),
        instruction(STORE_DOUBLE_CONSTANT, 10, 0, -16, 0),
        instruction(MOVE, 1, 6, 0, 0),
        instruction(MOVE, 2, 10, 0, 0),
        instruction(ADD_CONSTANT, 2, 0, 0, -8),
        instruction(MOVE, 3, 10, 0, 0),
        instruction(ADD_CONSTANT, 3, 0, 0, -16),
        instruction(CALL, 0, PSEUDO_KERNEL_FUNC, 0, function),
        instruction(JUMP_NOT_CONSTANT, 0, 0, 10, 0),
        // For the verifier the call may have moved the frame: check the bounds again.
        instruction(LOAD_WORD, 1, 6, DATA_META, 0),
        instruction(LOAD_WORD, 2, 6, DATA, 0),
        instruction(MOVE, 3, 1, 0, 0),
        instruction(ADD_CONSTANT, 3, 0, 0, record),
        instruction(JUMP_GREATER, 3, 2, 5, 0),
        instruction(LOAD_HALF, 4, 10, -8, 0),
        instruction(STORE_HALF, 1, 4, 0, 0),
        instruction(LOAD_HALF, 4, 10, -16, 0),
        instruction(STORE_HALF, 1, 4, 2, 0),
        instruction(STORE_WORD_CONSTANT, 1, 0, 4, 1),
    ]
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`
fn redirect(map: &SocketMap) -> [Instruction; 6] {
    [
        instruction(LOAD_WORD, 2, 6, RX_QUEUE_INDEX, 0),
        instruction(LOAD_WIDE, 1, PSEUDO_MAP_FD, 0, map.0.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE_CONSTANT, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Loads a program; one that is bound to a device if `device` is given.
fn load(code: &[Instruction], frags: bool, device: Option<u32>) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..8].copy_from_slice(b"wireyard");
    let frags = if frags { BPF_F_XDP_HAS_FRAGS } else { 0 };
    let bound = if device.is_some() { BPF_F_XDP_DEV_BOUND_ONLY } else { 0 };
    let attributes = ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        flags: frags | bound,
        name,
        interface: device.unwrap_or(0),
        expected_attach_type: BPF_XDP,
        ..ProgramLoad::default()
    };
    bpf(BPF_PROG_LOAD, &attributes).map(owned)
}
