// Numbers of no bits, where a token stands, types of types, choices in a parser, writes of standard metadata and of the last element there,
// headers that are not whole bytes.
#include <core.p4>
#include <v1model.p4>

type bit<8> one_t;
type one_t two_t;
#define HERE __LINE__
#if __LINE__ == 9
const bit<8> LINE = HERE;
#endif
const bit<8> NEXT = __LINE__ - 1;

header kind_t { bit<8> kind; bit<8> a; bit<8> b; bit<0> z; bit<8> c; }
header item_t { bit<8> v; }
header none_t { bit<0> z; }
header odd_t { bit<7> v; bool is; bit<3> more; }
struct pair_t { bit<8> a; bit<8> b; }
struct headers { kind_t h; none_t none; item_t[3] items; }
struct meta_t { bit<0> z; bit<0> w; two_t two; bit<8> m; bit<16> hash; bit<16> same; }

bool more(inout bit<8> x) { x = x + 1; return x == 5; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.none);
        meta.two = (two_t) (one_t) hdr.h.kind;
        transition select(hdr.h.kind, meta.z) {
            (1, 0): choices;
            (2, 0): standard;
            (3, 0): items;
            (4, _): standard;
            default: accept;
        }
    }
    state choices {
        pair_t one = { 1, 2 };
        pair_t other = { 3, 4 };
        pair_t chosen = hdr.h.a == 1 ? one : other;
        hdr.h.b = chosen.b;
        bit<8> x = hdr.h.c;
        if (hdr.h.a != 0 && more(x)) { hdr.h.c = 0xcc; }
        if (hdr.h.a == 7 || more(x)) { hdr.h.a = x; }
        bit<8> y = hdr.h.b == 4 ? (more(x) ? 8w1 : 8w2) : 8w3;
        meta.m = x + y;
        transition accept;
    }
    state standard {
        sm.priority = 3;
        sm.ingress_port = sm.ingress_port + 1;
        sm.egress_rid = 7;
        if (hdr.h.kind == 4) { sm.mcast_grp = 9; sm.mcast_grp = 0; }
        transition accept;
    }
    state items {
        packet.extract(hdr.items.next);
        hdr.items.last.v = hdr.items.last.v + 1;
        transition select(hdr.items.last.v) { 0: accept; default: items; }
    }
}
control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        if (hdr.h.kind == 0) {
            meta.z = ~meta.z & meta.w | 0w0 ^ meta.z + meta.w * 2;
            meta.w = meta.z << 1 |+| meta.w;
            meta.z = -meta.z;
            hdr.h.a = (meta.z ++ hdr.h.a ++ meta.w) << meta.z;
            hdr.h.a = hdr.h.a + (bit<8>) meta.z;
            bit<8> both = meta.z ++ 8w1;
            if (meta.z < meta.w || meta.z > 0) { hdr.h.b = 0xee; }
            if (meta.z <= meta.w && meta.z >= 0) { hdr.h.b = hdr.h.b + both; }
            meta.z = (bit<0>) hdr.h.a;
            hash(meta.hash, HashAlgorithm.crc16, 16w0, { meta.z, hdr.h.a }, 16w0xffff);
            hash(meta.same, HashAlgorithm.crc16, 16w0, { hdr.h.a }, 16w0xffff);
            if (meta.hash == meta.same) { hdr.h.c = LINE ++ meta.z; }
        } else if (hdr.h.kind == 1) {
            hdr.h.kind = meta.m;
        } else if (hdr.h.kind == 2) {
            hdr.h.a = (bit<8>) sm.priority;
            hdr.h.b = (bit<8>) sm.ingress_port;
            hdr.h.c = (bit<8>) sm.egress_rid;
        } else if (hdr.h.kind == 5) {
            odd_t odd;
            odd = { 9, true, 5 };
            odd_t copy = odd;
            copy.more = copy.more + 1;
            odd_t invalid;
            if (copy.isValid() && copy != odd && !invalid.isValid() && copy.is) { hdr.h.a = copy.v ++ copy.more[0:0]; }
            one_t one = (one_t) meta.two;
            hdr.h.b = (bit<8>) one;
            two_t two = (two_t) one;
            if (two == meta.two) { hdr.h.c = NEXT; }
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (hdr.h.kind == 4) { hdr.h.a = (bit<8>) sm.priority; hdr.h.b = (bit<8>) sm.ingress_port; } }
}
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
