// Loops that end early, and values that are switched on, in parsers and in functions that parsers call.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> n; bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; bit<8> g; }
header one_t { bit<8> last; }
struct headers { h_t h; one_t[4] more; }
struct meta_t { bit<8> m; }

bit<8> below(in bit<8> x) {
    bit<8> n = 0;
    for (bit<8> i in 0 .. 3) {
        if (x == i) { break; }
        n = n + 1;
    }
    return n;
}

bit<8> known() {
    bit<8> n = 0;
    for (bit<8> i in 0 .. 3) {
        n = n + 1;
        if (i == 1) { break; }
    }
    return n;
}

bit<8> at_once() {
    bit<8> n = 0;
    for (bit<8> i in 0 .. 3) {
        n = n + 1;
        break;
    }
    return n;
}

bit<8> chosen(in bit<8> x) {
    bit<8> n = 0;
    switch (x) {
        0:
        1: { n = 7; }
        2: { n = 9; }
        default: { n = 1; }
    }
    return n;
}

bit<8> early(in bit<8> x) {
    for (bit<8> i in 0 .. 3) {
        if (x == i) { return 40 + i; }
    }
    return 50;
}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        hdr.h.a = below(hdr.h.n);
        hdr.h.b = known();
        hdr.h.c = at_once();
        hdr.h.d = chosen(hdr.h.n);
        hdr.h.e = early(hdr.h.n);
        for (bit<8> i in 0 .. 3) {
            meta.m = meta.m + 1;
            if (meta.m == 2) { break; } else { meta.m = meta.m + 0; }
        }
        hdr.h.f = meta.m;
        for (bit<8> i in 0 .. 3) {
            packet.extract(hdr.more.next);
            if (hdr.more.last.last == 0xff) { break; }
        }
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        // The same functions give the same in a control.
        if (below(hdr.h.n) == hdr.h.a && known() == hdr.h.b && at_once() == hdr.h.c
            && chosen(hdr.h.n) == hdr.h.d && early(hdr.h.n) == hdr.h.e) {
            hdr.h.g = 1;
        }
        switch ((bit<1>) hdr.more[2].isValid()) {
            1: { hdr.h.g = hdr.h.g + 0x10; }
            0: { hdr.h.g = hdr.h.g + 0x20; }
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
