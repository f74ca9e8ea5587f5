// Numbers of more than 128 bits in a parser, in functions, with a sign, in hashes, and in headers that are never in the packet.
#include <v1model.p4>

header op_t { bit<8> what; }
header wide_t { bit<160> a; bit<320> b; }
header beside_t { bit<16> n; bit<256> k; }
struct headers_t { op_t op; wide_t w; beside_t beside; }
struct meta_t { bit<320> kept; bit<320> other; bit<32> sum; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<320> local;
    state start {
        p.extract(h.op);
        p.extract(h.w);
        local = h.w.b ^ 1;
        m.kept = h.w.b;
        m.other[127:0] = h.w.b[319:192];
        transition select(h.op.what) {
            1: turned;
            default: accept;
        }
    }
    state turned {
        h.w.b[319:0] = local;
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

bit<320> same(in bit<320> x) { return x; }
bit<320> turned(in bit<320> x) { return ~x; }

control Signed(inout headers_t h)(int<8> small, int<160> large) {
    apply {
        if (h.op.what == 6) {
            h.w.b = (bit<320>) (int<320>) small;
        } else {
            h.w.b = (bit<320>) (int<320>) large;
        }
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Signed(-2, 5) signs;
    apply {
        s.egress_spec = 2;
        if (h.op.what == 2) {
            h.w.b = m.kept >> 8;
        } else if (h.op.what == 3) {
            h.w.b = m.other;
        } else if (h.op.what == 4) {
            h.w.b = turned(same(h.w.b));
            h.w.a[7:0] = same(h.w.b)[15:8];
        } else if (h.op.what == 5) {
            h.w.b = (bit<320>) (int<320>) (int<8>) h.w.b[319:312];
        } else if (h.op.what == 6 || h.op.what == 7) {
            signs.apply(h);
        } else if (h.op.what == 8) {
            h.w.b = (bit<320>) (int<320>) (int<160>) h.w.a;
        } else if (h.op.what == 9) {
            hash(m.sum, HashAlgorithm.crc32, 32w0, { h.w.b[159:0] }, 33w0x100000000);
            h.w.b[31:0] = m.sum;
        } else if (h.op.what == 10) {
            h.beside.n = h.w.a[15:0];
            h.beside.k = h.w.b[255:0];
            h.w.b[319:64] = h.beside.k;
            h.w.a[159:144] = h.beside.n;
        } else if (h.op.what == 11) {
            h.w.b = (h.w.b[0:0] == 1 ? h.w.b : m.kept << 8) == m.kept ? (m.kept[1:1] == 1 ? ~h.w.b : h.w.b) : 7;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control D(packet_out p, in headers_t h) {
    apply { p.emit(h.op); p.emit(h.w); }
}

V1Switch(P(), V(), I(), E(), V(), D()) main;
