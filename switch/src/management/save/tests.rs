//! What is saved beside changes of the program and of links.

use std::cell::Cell;
use std::sync::mpsc::channel;
use std::time::Duration;

use wireyard_tables::time::Time;

use super::*;
use crate::control::{Keep, Mode, Update};
use crate::ports::PortNumber;
use crate::program::{DeviceOptions, one_way};

/// Longer than the replacement of a program takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_program_is_replaced_while_the_written_form_of_a_group_is_looked_up() {
    let mut core = one_way().device(DeviceOptions::small()).unwrap();
    core.poll(Time::from_ns(1), None);
    let control = Control::of(&core).unwrap().clone();
    let members = Members::List(vec![Member { port: PortNumber(2), instance: 1 }]);
    let group = Group { members, prune_ingress: false };
    let insert = Update::Insert(Entity::Multicast { id: 7, group });
    control.write(&[insert], Mode::Atomic).unwrap();
    let is_replaced = Cell::new(false);
    let as_written = |entity| {
        if !is_replaced.replace(true) {
            let control = control.clone();
            let (done, waits) = channel();
            let swap = move || control.swap(&one_way(), Keep::WhatFits).is_ok();
            std::thread::spawn(move || done.send(swap()));
            assert_eq!(waits.recv_timeout(PATIENCE), Ok(true), "the read holds the program");
        }
        entity
    };
    let saved = lines(&control, &Settings::default(), &as_written).unwrap();
    assert!(is_replaced.get());
    assert_eq!(saved[1..], ["multicast_groups:", "  7: [{ port: 2, instance: 1 }]"]);
}
