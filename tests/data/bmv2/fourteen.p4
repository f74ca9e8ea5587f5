// What P4-14 has as primitives, header unions, and ways to enter again: fourteen.json is the same program.
#include <core.p4>
#include <v1model.p4>

header ops_t { bit<8> op; bit<8> a; bit<8> b; bit<16> res; }
header x_t { bit<8> v; }
header y_t { bit<16> w; }
header_union u_t { x_t x; y_t y; }
struct metadata { @field_list(1, 2) bit<8> turn; }
struct headers { ops_t o; u_t u; u_t w; ops_t p; }

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.o); transition accept; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    bit<16> a16 = (bit<16>)hdr.o.a;
    bit<16> b16 = (bit<16>)hdr.o.b;
    action add_own() { hdr.o.a = hdr.o.a + hdr.o.b; }
    action sub_own() { hdr.o.a = hdr.o.a - hdr.o.b; }
    action add3() { hdr.o.res = a16 + b16; }
    action sub3() { hdr.o.res = a16 - b16; }
    action xor3() { hdr.o.res = a16 ^ 0x1ff; }
    action or3() { hdr.o.res = a16 | b16; }
    action and3() { hdr.o.res = a16 & b16; }
    action left3() { hdr.o.res = a16 << hdr.o.b; }
    action right3() { hdr.o.res = a16 >> hdr.o.b; }
    action modified() { hdr.o.res = 0x1234; hdr.o.a = hdr.o.b; }
    action drawn() { random(hdr.o.res, 16w5, 16w5); }
    action small() { hdr.u.x.setValid(); hdr.u.x.v = hdr.o.a; }
    action large() { hdr.u.y.setValid(); hdr.u.y.w = 0xbeef; hdr.w = hdr.u; }
    action gone() { hdr.u.x.setValid(); hdr.u.y.setValid(); hdr.u.y.setInvalid(); hdr.p = hdr.o; }
    action again() { meta.turn = 7; resubmit_preserving_field_list(1); }
    action fresh() { meta.turn = 7; resubmit_preserving_field_list(0); }
    action dropped() { mark_to_drop(standard_metadata); assume(true); }
    table ops {
        key = { hdr.o.op: exact; }
        actions = { add_own; sub_own; add3; sub3; xor3; or3; and3; left3; right3; modified; drawn; small; large; gone; again; fresh; dropped; NoAction; }
        const default_action = NoAction();
        const entries = {
            0: add_own();
            1: sub_own();
            2: add3();
            3: sub3();
            4: xor3();
            5: or3();
            6: and3();
            7: left3();
            8: right3();
            9: modified();
            10: drawn();
            11: small();
            12: large();
            13: gone();
            14: again();
            15: fresh();
            16: dropped();
        }
    }
    apply {
        standard_metadata.egress_spec = 2;
        if (meta.turn == 7 || standard_metadata.instance_type != 0) {
            hdr.o.op = 0xcc;
            hdr.o.a = meta.turn;
        } else {
            ops.apply();
        }
    }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.o.op == 0xa0) {
            hdr.o.op = 0xdd;
            recirculate_preserving_field_list(2);
        } else if (hdr.o.op == 0xa1 && standard_metadata.instance_type == 0) {
            hdr.o.res = 0x0bad;
            clone(CloneType.E2E, 5);
        }
    }
}
control DeparserImpl(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.o); packet.emit(hdr.u); packet.emit(hdr.w); packet.emit(hdr.p); }
}
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
