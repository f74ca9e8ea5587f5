// A packet of the controller comes in by PSA_PORT_CPU, with a header in front that says where to; and one to the controller leaves by that port.
#include <core.p4>
#include <psa.p4>

header out_t { bit<32> port; }
header shim_t { bit<8> what; bit<8> seen; }
struct headers_t { out_t to; shim_t shim; }
struct none_t { }

parser IngressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_ingress_parser_input_metadata_t istd,
                    in none_t resubmitted, in none_t recirculated) {
    state start {
        transition select (istd.ingress_port) {
            PSA_PORT_CPU: from_controller;
            default: shim;
        }
    }
    state from_controller { packet.extract(hdr.to); transition shim; }
    state shim { packet.extract(hdr.shim); transition accept; }
}
control In(inout headers_t hdr, inout none_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    action mark(bit<8> value) { hdr.shim.seen = value; }
    table by_port {
        key = { istd.ingress_port: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        const entries = { PSA_PORT_CPU: mark(0xcc); (PortId_t) 1: mark(0x11); }
    }
    apply {
        by_port.apply();
        if (hdr.to.isValid()) {
            send_to_port(ostd, (PortId_t) hdr.to.port);
            hdr.to.setInvalid();
        } else {
            send_to_port(ostd, (PortId_t) 2);
        }
    }
}
control InDeparse(packet_out packet, out none_t cloned, out none_t resubmitted, out none_t normal, inout headers_t hdr,
                  in none_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr.shim); }
}
parser EgressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_egress_parser_input_metadata_t istd,
                   in none_t normal, in none_t cloned, in none_t cloned_again) {
    state start { packet.extract(hdr.shim); transition accept; }
}
control Out(inout headers_t hdr, inout none_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { }
}
control OutDeparse(packet_out packet, out none_t cloned, out none_t recirculated, inout headers_t hdr, in none_t meta,
                   in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.shim); }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ingress;
EgressPipeline(EgressParse(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
