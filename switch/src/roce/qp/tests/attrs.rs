//! States and attributes.

use super::channel::{BASE, Pair, Setup, ready};
use crate::roce::memory::MemoryTable;
use crate::roce::opcode::Service;
use crate::roce::qp::{Attrs, ModifyError, PathMtu, QpConfig, QpState, QueuePair};
use crate::roce::rp::RateAlgorithm;
use crate::roce::verbs::{PostError, RecvWr, SendOp, SendWr, Sge, Status};

fn qp(service: Service) -> QueuePair {
    QueuePair::new(5, service, &QpConfig::new(RateAlgorithm::fixed(1e9).unwrap()))
}

#[test]
fn a_transition_needs_its_attributes() {
    let mut qp = qp(Service::Rc);
    let none = Attrs::default();
    let full = Attrs {
        pkey: Some(0xffff),
        port: Some(1),
        access: Some(crate::roce::memory::Access::ALL),
        ..none
    };
    use ModifyError::{Missing, NoTransition, NotAllowed, OutOfRange};
    let init = QpState::Init;
    assert_eq!(qp.modify(QpState::Rts, &none), Err(NoTransition(QpState::Reset, QpState::Rts)));
    assert_eq!(qp.modify(init, &none), Err(Missing("pkey")));
    assert_eq!(qp.modify(init, &Attrs { access: None, ..full }), Err(Missing("access")));
    assert_eq!(qp.modify(init, &Attrs { qkey: Some(1), ..full }), Err(NotAllowed("qkey")));
    assert_eq!(qp.modify(init, &Attrs { pkey: Some(0x8000), ..full }), Err(OutOfRange("pkey")));
    assert_eq!(qp.state(), QpState::Reset);
    qp.modify(init, &full).unwrap();
    let rtr = Attrs {
        path: Some(1),
        path_mtu: PathMtu::new(1024),
        dest_qp: Some(7),
        rq_psn: Some(1 << 24),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(0x12),
        ..none
    };
    assert_eq!(qp.modify(QpState::Rtr, &rtr), Err(OutOfRange("rq_psn")));
    let rtr = Attrs { rq_psn: Some(3), ..rtr };
    assert_eq!(
        qp.modify(QpState::Rtr, &Attrs { min_rnr_timer: None, ..rtr }),
        Err(Missing("min_rnr_timer"))
    );
    qp.modify(QpState::Rtr, &rtr).unwrap();
    let rts = Attrs { sq_psn: Some(1), retry_count: Some(8), rnr_retry: Some(7), ..none };
    assert_eq!(qp.modify(QpState::Rts, &rts), Err(Missing("max_rd_atomic")));
    let rts = Attrs { max_rd_atomic: Some(1), timeout: Some(14), ..rts };
    assert_eq!(qp.modify(QpState::Rts, &rts), Err(OutOfRange("retry_count")));
    qp.modify(QpState::Rts, &Attrs { retry_count: Some(7), ..rts }).unwrap();
    assert_eq!((qp.state(), qp.dest_qp(), qp.path()), (QpState::Rts, 7, 1));
}

#[test]
fn each_service_has_its_own_attributes() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        let mut qp = qp(service);
        ready(&mut qp, 9, &Setup { service, ..Setup::default() });
        assert_eq!(qp.state(), QpState::Rts);
    }
    let mut uc = qp(Service::Uc);
    let init = Attrs {
        pkey: Some(1),
        port: Some(1),
        access: Some(crate::roce::memory::Access::NONE),
        ..Attrs::default()
    };
    uc.modify(QpState::Init, &init).unwrap();
    let rtr = Attrs {
        path: Some(1),
        path_mtu: PathMtu::new(256),
        dest_qp: Some(1),
        rq_psn: Some(0),
        min_rnr_timer: Some(1),
        ..Attrs::default()
    };
    let refused = uc.modify(QpState::Rtr, &rtr);
    assert_eq!(refused, Err(ModifyError::NotAllowed("min_rnr_timer")), "RNR is RC's alone");
}

#[test]
fn work_is_taken_only_where_it_makes_sense() {
    let memory = MemoryTable::new();
    let empty = Sge::default();
    let mut fresh = qp(Service::Rc);
    let send = SendWr::new(1, SendOp::Send, empty);
    assert_eq!(fresh.post_send(send, &memory), Err(PostError::WrongState));
    let recv = RecvWr { wr_id: 1, local: empty };
    assert_eq!(fresh.post_recv(recv, &memory), Err(PostError::WrongState));
    let mut pair = Pair::new(&Setup::default());
    let side = &mut pair.sides[0];
    let huge = Sge { key: side.key, va: BASE, len: (1 << 31) + 1 };
    let posted = side.qp.post_send(SendWr::new(1, SendOp::Send, huge), &side.memory);
    assert_eq!(posted, Err(PostError::BadLength));
    let wrapping = Sge { key: side.key, va: u64::MAX, len: 8 };
    let posted = side.qp.post_send(SendWr::new(1, SendOp::Send, wrapping), &side.memory);
    assert!(matches!(posted, Err(PostError::BadMemory(_))));
    for id in 0..128 {
        side.qp.post_send(SendWr::new(id, SendOp::Send, empty), &side.memory).unwrap();
    }
    let posted = side.qp.post_send(SendWr::new(1, SendOp::Send, empty), &side.memory);
    assert_eq!(posted, Err(PostError::QueueFull));
}

#[test]
fn err_flushes_everything_and_reset_starts_afresh() {
    let mut pair = Pair::new(&Setup::default());
    pair.recv(0, 7, 0, 10);
    let local = pair.sge(0, 0, 10);
    let side = &mut pair.sides[0];
    side.qp.post_send(SendWr::new(1, SendOp::Send, local), &side.memory).unwrap();
    side.qp.modify(QpState::Err, &Attrs::default()).unwrap();
    side.qp.post_send(SendWr::new(2, SendOp::Send, local), &side.memory).unwrap();
    let flushed: Vec<_> = std::iter::from_fn(|| side.qp.poll_cq()).collect();
    assert_eq!(flushed.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [1, 7, 2]);
    assert!(flushed.iter().all(|c| c.status == Status::WorkRequestFlushed));
    assert!(side.qp.poll_tx(pair.now, &side.memory).is_none());
    side.qp.modify(QpState::Reset, &Attrs::default()).unwrap();
    ready(&mut side.qp, 11, &Setup { psn: 100, ..Setup::default() });
    side.qp.post_send(SendWr::new(3, SendOp::Send, local), &side.memory).unwrap();
    let packet = side.qp.poll_tx(pair.now, &side.memory).unwrap();
    assert_eq!(packet.headers.bth.psn.get(), 100);
}
