// Value sets of two keys and of one.
#include <core.p4>
#include <v1model.p4>

header sort_t {
    bit<8>  kind;
    bit<16> port;
    bit<8>  seen;
}
struct metadata { }
struct headers { sort_t sort; }
struct pair_t {
    bit<8>  kind;
    bit<16> port;
}

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    value_set<pair_t>(1024) pairs;
    value_set<bit<16>>(1024) ports;
    state start {
        packet.extract(hdr.sort);
        transition select(hdr.sort.kind, hdr.sort.port) {
            (9, _): alone;
            pairs: found;
            default: accept;
        }
    }
    state alone {
        transition select(hdr.sort.port) {
            ports: found;
            default: accept;
        }
    }
    state found {
        hdr.sort.seen = 1;
        transition accept;
    }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply { standard_metadata.egress_spec = 2; }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control DeparserImpl(packet_out packet, in headers hdr) { apply { packet.emit(hdr.sort); } }
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
