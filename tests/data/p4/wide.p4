// Numbers of more than 128 bits: slices, constants, and what is made bit by bit.
#include <v1model.p4>

header op_t { bit<8> what; }
header wide_t { bit<160> a; bit<320> b; }
struct headers_t { op_t op; wide_t w; }
struct meta_t { bit<320> kept; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.op);
        p.extract(h.w);
        transition select(h.w.b[319:312]) {
            0xff: chosen;
            default: accept;
        }
    }
    state chosen {
        h.op.what = 0x77;
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        if (h.op.what == 1) {
            // Slices that are no whole bytes, and one across the parts of 128 bits.
            h.w.b[131:124] = h.w.a[11:4];
            h.w.a[7:0] = h.w.a[159:152] + h.w.b[319:312];
        } else if (h.op.what == 2) {
            h.w.b = 0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627;
            h.w.a = 5;
        } else if (h.op.what == 3) {
            // The halves change places: each part is read before any is written.
            h.w.b = h.w.b[159:0] ++ h.w.b[319:160];
        } else if (h.op.what == 4) {
            h.w.b = (h.w.b ^ (bit<320>) h.w.a) & ~((bit<320>) 0xff << 312);
        } else if (h.op.what == 5) {
            if (h.w.a == 160w0x0102030405060708090a0b0c0d0e0f1011121314) {
                h.op.what = 0x55;
            } else if (h.w.a != h.w.b[159:0]) {
                h.op.what = 0x66;
            }
        } else if (h.op.what == 6) {
            m.kept = h.w.b >> 8;
            h.w.b = h.w.a[0:0] == 1 ? m.kept : m.kept << 16;
        } else if (h.op.what == 7) {
            h.w.a = (bit<160>) h.w.b;
            h.w.b[319:160] = h.w.b[159:0];
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control D(packet_out p, in headers_t h) {
    apply { p.emit(h.op); p.emit(h.w); }
}

V1Switch(P(), V(), I(), E(), V(), D()) main;
