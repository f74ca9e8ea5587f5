// A block of its own exits: it copies out there, to the element that the index was before the next argument changed it.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> at; }
header item_t { bit<8> a; }
struct headers { kind_t kind; item_t[3] items; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.kind);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }

bit<8> next(inout bit<8> value) {
    value = value + 1;
    return value;
}

control Gains(inout bit<8> value, in bit<8> more) {
    action gain() { value = value + more; }
    table gained {
        actions = { gain; }
        const default_action = gain;
    }
    apply {
        gained.apply();
        if (value == 0x77) { exit; }
    }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Gains() gains;
    apply {
        gains.apply(hdr.items[hdr.kind.at].a, next(hdr.kind.at));
        hdr.items[0].a = 0xff;
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
