// A PSA program: both parsers are the same, egress counts passes and a packet to port 9 goes through ingress once more.
#include <core.p4>
#include <psa.p4>

header shim_t {
    bit<8> to;
    bit<8> passes;
    bit<8> path;
}
struct headers_t { shim_t shim; }
struct none_t { }

parser Parse(packet_in packet, out headers_t hdr) {
    state start {
        packet.extract(hdr.shim);
        transition accept;
    }
}
parser IngressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_ingress_parser_input_metadata_t istd,
                    in none_t resubmitted, in none_t recirculated) {
    Parse() inner;
    state start {
        inner.apply(packet, hdr);
        transition accept;
    }
}
control In(inout headers_t hdr, inout none_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        if (hdr.shim.to == 9 && istd.packet_path != PSA_PacketPath_t.RECIRCULATE) {
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else if (hdr.shim.to == 8) {
            send_to_port(ostd, (PortId_t) 0x10001);
        } else if (hdr.shim.to != 7) {
            send_to_port(ostd, (PortId_t) (PortIdUint_t) hdr.shim.to);
        }
    }
}
control InDeparse(packet_out packet, out none_t cloned, out none_t resubmitted, out none_t normal, inout headers_t hdr,
                  in none_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr.shim); }
}
parser EgressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_egress_parser_input_metadata_t istd,
                   in none_t normal, in none_t cloned, in none_t cloned_again) {
    Parse() inner;
    state start {
        inner.apply(packet, hdr);
        transition accept;
    }
}
control Out(inout headers_t hdr, inout none_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.shim.passes = hdr.shim.passes + 1;
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {
            hdr.shim.path = 0xaa;
        }
        if (hdr.shim.to == 6) {
            egress_drop(ostd);
        }
    }
}
control OutDeparse(packet_out packet, out none_t cloned, out none_t recirculated, inout headers_t hdr, in none_t meta,
                   in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.shim); }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ingress;
EgressPipeline(EgressParse(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
