// More headers than bits of validity: those that never are in the packet are metadata. And more variables than metadata has room for.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> value; }
header odd_t { bit<8> v; bit<3> odd; }
struct scratch_t {
    kind_t k0; kind_t k1; kind_t k2; kind_t k3; kind_t k4; kind_t k5; kind_t k6; kind_t k7; kind_t k8; kind_t k9;
    odd_t o0; odd_t o1; odd_t o2; odd_t o3; odd_t o4; odd_t o5; odd_t o6; odd_t o7; odd_t o8; odd_t o9;
}
struct headers { kind_t h; kind_t[30] stack; kind_t[16] more; }
struct meta_t { scratch_t s; bit<8> m; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        meta.s.k9 = { 7, 8 };
        transition select(hdr.h.kind) { 0x80 &&& 0x80: more; default: accept; }
    }
    state more { packet.extract(hdr.stack.next); transition select(hdr.stack.last.kind) { 0: accept; default: more; } }
}
control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

#define TURN(n, a, b) \
    if (meta.s.a.isValid()) { meta.s.b = meta.s.a; meta.s.b.kind = meta.s.b.kind + n; } else { meta.s.b.setValid(); meta.s.b = { n, n }; }

#define WIDE(n) { bit<128> a = (bit<128>) hdr.h.value + n; bit<128> b = a * 3; bit<128> c; if (a == 5) { c = b; } else { c = a; } \
    bit<128> never; hdr.h.value = (c + b)[7:0]; meta.m = meta.m + never[7:0]; }
#define TEN(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n) WIDE(n)

control Nine(inout bit<8> x) { apply { bit<128> y = (bit<128>) x; x = (y * y)[7:0]; } }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Nine() nine;
    action put(bit<8> v) { bit<128> w = (bit<128>) v; hdr.h.value = (w + 1)[7:0]; }
    table t { key = { hdr.h.kind: exact; } actions = { put; } const default_action = put(9); }
    apply {
        sm.egress_spec = 2;
        if (hdr.h.kind == 1) {
            TURN(1, k0, k1) TURN(2, k1, k2) TURN(3, k2, k3) TURN(4, k3, k4) TURN(5, k4, k5) TURN(6, k5, k6) TURN(7, k6, k7) TURN(8, k7, k8)
            hdr.h.value = meta.s.k8.kind + meta.s.k9.value;
        } else if (hdr.h.kind == 2) {
            meta.s.o0.setValid();
            meta.s.o0.odd = 5;
            meta.s.o1 = meta.s.o0;
            meta.s.o2 = meta.s.o1;
            meta.s.o1.setInvalid();
            meta.s.o3 = meta.s.o1;
            if (meta.s.o2.isValid() && !meta.s.o3.isValid() && meta.s.o2 != meta.s.o3) { hdr.h.value = (bit<8>) meta.s.o2.odd; }
            meta.s.o4 = meta.s.o2; meta.s.o5 = meta.s.o2; meta.s.o6 = meta.s.o2; meta.s.o7 = meta.s.o2; meta.s.o8 = meta.s.o2;
            meta.s.o9 = meta.s.o8;
            if (meta.s.o9 == meta.s.o4 && meta.s.o5 == meta.s.o6 && meta.s.o7.isValid()) { hdr.h.value = hdr.h.value + 0x10; }
        } else if (hdr.h.kind == 3) {
            meta.s.k0 = hdr.h;
            meta.s.k0.value = 0x33;
            hdr.more[0] = meta.s.k0;
            hdr.more[1] = meta.s.k1;
            hdr.more[15] = hdr.more[0];
        } else if (hdr.h.kind == 4) {
            TEN(1) TEN(2) TEN(3) hdr.h.kind = meta.m;
        } else if (hdr.h.kind == 5) {
            nine.apply(hdr.h.value);
            t.apply();
            nine.apply(hdr.h.value);
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); packet.emit(hdr.stack); packet.emit(hdr.more); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
