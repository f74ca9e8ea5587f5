// Digests of values that a block computes, is given or keeps.
#include <core.p4>
#include <v1model.p4>

struct headers { }
struct seen_t { bit<8> a; bit<8> b; bit<9> port; }
struct meta_t { bit<8> x; seen_t[2] seen; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
bit<8> next(inout bit<8> x) { x = x + 1; return x; }
control Learn(in bit<8> a, in bit<9> port) { apply { digest<seen_t>(1, { a, 2, port }); } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    Learn() learns;
    action learn(in bit<8> a, bit<8> b) { digest<seen_t>(1, { a, b, std.ingress_port }); }
    apply {
        std.egress_spec = 2;
        learn((bit<8>) std.ingress_port, 7);
        learns.apply(meta.x + 3, std.ingress_port);
        digest<seen_t>(1, { next(meta.x), next(meta.x), 0 });
        digest<seen_t>(1, { (meta.x + 40) / 3, (bit<8>) ((int<8>) (meta.x - 10) >> 1), 5 });
        meta.seen[1] = { 21, 22, 23 };
        digest<seen_t>(1, meta.seen[meta.x - 1]);
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
