// Parts of numbers with a computed place, values beside parameters of their name, and the order in which things are read.
#include <core.p4>
#include <v1model.p4>

header head_t { bit<8> what; bit<8> at; bit<8> a; bit<8> b; bit<128> wide; }
struct headers { head_t head; }
struct metadata { bit<8> seen; error failed; }

bit<8> more(in bit<8> x) { return x + 1; }
bit<8> take(inout bit<8> x) { x = x + 1; return x; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.head);
        // The first key is read before the second one changes it.
        transition select(hdr.head.what, hdr.head.at, take(hdr.head.at)) {
            (6, 1, 2): first;
            (6, _, _): second;
            (7, _, _): reject;
            (8, _, _): parts;
            (10, _, _): left;
            (9, 1, 3): first;
            (0..5, _, _): back;
        }
    }
    state back { hdr.head.at = hdr.head.at - 1; transition accept; }
    state first { meta.seen = 1; transition accept; }
    state second { meta.seen = 2; transition accept; }
    state parts {
        hdr.head.a[3:0] += 3;
        hdr.head.a[7:4] ^= 5;
        transition back;
    }
    // The left side is that of before.
    state left {
        hdr.head.a[3:0] += (bit<4>)take(hdr.head.a);
        hdr.head.b[hdr.head.at+:4] += (bit<4>)take(hdr.head.at);
        transition accept;
    }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action given(bit<8> value) {
        hdr.head.a = more(hdr.head.b);
        hdr.head.b = value;
    }
    table actions_of {
        key = { hdr.head.what: exact; }
        actions = { given; NoAction; }
        default_action = NoAction();
        const entries = { 3: given(7); }
    }
    apply {
        standard.egress_spec = 2;
        bit<8> at = hdr.head.at;
        if (hdr.head.what == 0) {
            hdr.head.a[at+:4] += 1;
        } else if (hdr.head.what == 1) {
            hdr.head.wide[at+:128] = 0;
        } else if (hdr.head.what == 2) {
            // The place is that of before.
            hdr.head.a[at+:4] = (bit<4>)take(at);
            hdr.head.b = at;
        } else if (hdr.head.what == 4) {
            hdr.head.a = 8w1 << 64w0xffff_ffff_ffff_ffff;
            hdr.head.b = (bit<8>)(8s0x80 >> 70000);
        }
        actions_of.apply();
        if (hdr.head.what == 6) { hdr.head.b = meta.seen; }
        if (standard.parser_error != error.NoError) { hdr.head.b = 0xee; }
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.head); } }

V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
