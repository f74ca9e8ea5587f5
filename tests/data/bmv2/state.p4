// What is kept from packet to packet, digests and copies: state.json is the same program.
#include <core.p4>
#include <v1model.p4>

header mark_t { bit<8> kind; bit<8> value; bit<32> count; }
struct metadata {
    bit<8> seen;
    bit<2> color;
    @field_list(1)
    bit<8> kept;
}
struct headers { mark_t mark; }
struct learned_t { bit<8> kind; bit<9> ingress_port; }

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.mark); transition accept; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(256) latest;
    meter(16, MeterType.bytes) rates;
    direct_meter<bit<2>>(MeterType.packets) entry_rate;
    action counted(bit<9> port) {
        bit<32> tmp;
        latest.read(tmp, (bit<32>)hdr.mark.kind);
        tmp = tmp + 1;
        latest.write((bit<32>)hdr.mark.kind, tmp);
        bit<32> again;
        latest.read(again, (bit<32>)hdr.mark.kind);
        meta.seen = (bit<8>)again;
        hdr.mark.count = tmp;
        standard_metadata.egress_spec = port;
        meta.kept = hdr.mark.value + 1;
    }
    action measured(bit<32> index) {
        rates.execute_meter(index, meta.color);
        standard_metadata.egress_spec = 3;
        hdr.mark.value = (bit<8>)meta.color + 16;
    }
    action learn() {
        digest<learned_t>(1, { hdr.mark.kind, standard_metadata.ingress_port });
        standard_metadata.egress_spec = 4;
    }
    action copy() {
        meta.kept = 0x77;
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        standard_metadata.egress_spec = 2;
    }
    action short() { truncate(3); standard_metadata.egress_spec = 2; }
    action colored() {
        entry_rate.read(meta.color);
        hdr.mark.value = (bit<8>)meta.color + 32;
        standard_metadata.egress_spec = 5;
    }
    table kinds {
        key = { hdr.mark.kind: exact; }
        actions = { counted; measured; learn; copy; short; NoAction; }
        default_action = NoAction();
    }
    table own {
        key = { hdr.mark.value: exact; }
        actions = { colored; NoAction; }
        default_action = NoAction();
        meters = entry_rate;
        size = 64;
    }
    apply { switch (kinds.apply().action_run) { NoAction: { own.apply(); } } }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply { if (standard_metadata.instance_type == 1) { hdr.mark.value = meta.kept; } }
}
control DeparserImpl(packet_out packet, in headers hdr) { apply { packet.emit(hdr.mark); } }
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
