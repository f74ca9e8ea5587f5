// Deparsers that decide: `emit` under conditions, in loops, behind `return`, and of one header twice.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; }
header item_t { bit<8> v; }

struct headers { kind_t h; item_t[2] items; item_t last; }
struct meta_t {}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.last);
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { sm.egress_spec = 2; } }
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }

control Rest(packet_out packet, in headers hdr) {
    apply {
        for (bit<32> i = 0; i < 2; i = i + 1) { packet.emit(hdr.items[i]); }
        if (hdr.h.a == 7) { packet.emit(hdr.last); }
    }
}

control D(packet_out packet, in headers hdr) {
    Rest() rest;
    apply {
        packet.emit(hdr.h);
        if (hdr.h.kind == 1) { return; }
        switch (hdr.h.kind) {
            2: { packet.emit(hdr.last); packet.emit(hdr.items); }
            3: { packet.emit(hdr.h); packet.emit(hdr.last); packet.emit(hdr.h); }
            default: { rest.apply(packet, hdr); }
        }
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
