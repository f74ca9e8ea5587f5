// Arithmetic: numbers.json is the same program, in which numbers have no width until they are stored.
#include <core.p4>
#include <v1model.p4>

header ops_t { bit<8> op; bit<8> a; bit<8> b; int<8> s; int<8> t; bit<16> wide; bit<16> res; }
struct metadata { }
struct headers { ops_t o; }

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.o); transition accept; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    bit<16> a16 = (bit<16>)hdr.o.a;
    bit<16> b16 = (bit<16>)hdr.o.b;
    action sum() { hdr.o.res = a16 + b16; }
    action sum8() { hdr.o.res = (bit<16>)(hdr.o.a + hdr.o.b); }
    action less() { hdr.o.res = a16 - b16; }
    action product() { hdr.o.res = a16 * b16; }
    action average() { hdr.o.res = (a16 + b16) >> 1; }
    action sat() { hdr.o.res = (bit<16>)(hdr.o.a |+| hdr.o.b); }
    action satless() { hdr.o.res = (bit<16>)(hdr.o.a |-| hdr.o.b); }
    action signed() { hdr.o.s = hdr.o.s + hdr.o.t; hdr.o.res = (bit<16>)(int<16>)hdr.o.s; }
    action ssat() { hdr.o.s = hdr.o.s |+| hdr.o.t; }
    action sless() { hdr.o.res = hdr.o.s < hdr.o.t ? 16w1 : 16w0; }
    action sright() { hdr.o.res = (bit<16>)(int<16>)(hdr.o.s >> 2); }
    action choice() { hdr.o.res = hdr.o.a >= hdr.o.b ? a16 + 0x100 : b16; }
    action invert() { hdr.o.res = (bit<16>)(~hdr.o.a); }
    action invert16() { hdr.o.res = ~a16; }
    action shift() { hdr.o.res = a16 << hdr.o.b; }
    action negative() { hdr.o.res = hdr.o.wide - 1; }
    action mixed() { hdr.o.res = (int<16>)a16 - (int<16>)b16 < -16s5 ? 16w1 : 16w0; }
    action bools() { hdr.o.res = !hdr.o.isValid() || a16 == 0x123 ? 16w1 : 16w0; }
    action logic() { hdr.o.res = hdr.o.wide & 0xf0f0 | a16 ^ b16; }
    action jumps() {
        if (hdr.o.a > hdr.o.b) {
            hdr.o.res = 1;
            if (hdr.o.b == 0) { hdr.o.a = 0xaa; }
        } else {
            hdr.o.res = 2;
            hdr.o.a = 0xaa;
        }
        hdr.o.b = 0xbb;
    }
    action leave() { hdr.o.res = 0xdead; exit; }
    table ops {
        key = { hdr.o.op: exact; }
        actions = {
            sum; sum8; less; product; average; sat; satless; signed; ssat; sless; sright; choice; invert; invert16; shift; negative; mixed; bools;
            logic; jumps; leave; NoAction;
        }
        default_action = NoAction();
        const entries = {
            0: sum(); 1: sum8(); 2: less(); 3: product(); 4: average(); 5: sat(); 6: satless(); 7: signed(); 8: ssat(); 9: sless(); 10: sright();
            11: choice(); 12: invert(); 13: invert16(); 14: shift(); 15: negative(); 16: mixed(); 17: bools(); 18: logic(); 19: jumps(); 20: leave();
        }
    }
    apply {
        standard_metadata.egress_spec = 2;
        switch (ops.apply().action_run) {
            NoAction: { }
            sum: { hdr.o.op = 0xe0; hdr.o.wide = hdr.o.wide + 1; }
            sum8: { hdr.o.op = 0xe0; hdr.o.wide = hdr.o.wide + 1; }
            default: { hdr.o.op = 0xe1; hdr.o.wide = hdr.o.wide + 1; }
        }
    }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control DeparserImpl(packet_out packet, in headers hdr) { apply { packet.emit(hdr.o); } }
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
