// Constants in lists that are hashed take whole bytes, fields are joined bit by bit; and the notations of scripts of p4c.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> a; bit<4> x; bit<12> y; bit<16> hash; bit<16> more; bit<16> fields; }
header other_t { bit<8> v; }

struct headers { kind_t h; other_t o; }
struct meta_t {}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) { 0xff: other; default: accept; }
    }
    state other { packet.extract(hdr.o); transition accept; }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    bit<12> always = 0x456;
    bit<12> sometimes = 0x456;
    action set(@name("value") bit<8> to) { hdr.h.a = to; }
    table masked { key = { hdr.h.more : ternary; } actions = { set; NoAction; } default_action = NoAction(); }
    table ranged { key = { hdr.h.fields : range; } actions = { set; NoAction; } default_action = NoAction(); }
    table valid { key = { hdr.o.isValid() : exact; } actions = { set; NoAction; } default_action = NoAction(); }
    apply {
        sm.egress_spec = 31;
        masked.apply();
        ranged.apply();
        valid.apply();
        if (hdr.h.x == 0) {
            hash(hdr.h.hash, HashAlgorithm.crc16, 16w0, { 12w0x456 }, 32w0x10000);
            hash(hdr.h.more, HashAlgorithm.crc16, 16w0, { always }, 32w0x10000);
            sometimes = hdr.h.y;
            hash(hdr.h.fields, HashAlgorithm.crc16, 16w0, { sometimes }, 32w0x10000);
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
