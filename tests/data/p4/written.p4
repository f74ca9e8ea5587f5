// What P4 permits and programs seldom write: `?:` in indices and in sets of values, defaults of action parameters in tables, two actions of
// one name in a table.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; }
header item_t { bit<8> v; }
struct headers { h_t h; item_t[3] items; }
struct meta_t { bit<8> m; }

const bool WIDE = true;

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition select(hdr.h.kind, hdr.h.a) {
            (WIDE ? 8w9 : 8w8, 1 .. (WIDE ? 3 : 2)): nine;
            default: accept;
        }
    }
    state nine {
        hdr.h.b = 0x99;
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply {} }

action shared_name() { }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action mark(bit<8> by) { hdr.h.c = by; }
    table t {
        key = { hdr.h.kind: exact; hdr.h.a: ternary; }
        actions = { mark; NoAction; }
        const entries = {
            (WIDE ? 8w1 : 2, WIDE ? 8w4 : 5): mark(0x11);
            (9, _): mark(0x12);
        }
        const default_action = NoAction();
    }
    action add(bit<8> x = 5, bit<8> y = 0x20) { hdr.h.c = hdr.h.c + x + y; }
    table d {
        key = { hdr.h.kind: exact; }
        actions = { add; }
        const default_action = add();
        const entries = {
            9: add(y = 0x40);
            8: add(1);
        }
    }
    action shared_name() { hdr.h.b = 0x55; }
    table s {
        key = { hdr.h.a: exact; }
        actions = { shared_name; .shared_name; }
        const entries = { 3: shared_name(); 4: .shared_name(); }
    }
    apply {
        sm.egress_spec = 2;
        t.apply();
        d.apply();
        if (hdr.h.kind == 8) {
            switch (s.apply().action_run) {
                shared_name: { hdr.h.c = 0xa0; }
                .shared_name: { hdr.h.c = 0xa1; }
            }
        }
        if (hdr.h.kind == 1) {
            hdr.h.b = hdr.items[hdr.h.a == 4 ? 8w2 : 0].v;
            hdr.items[0].v[WIDE ? 3 : 7:0] = hdr.items[1].v[hdr.h.a == 4 ? 8w4 : 0+:4];
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
