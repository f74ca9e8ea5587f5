// The program of psa.p4 with type parameters of parsers, controls and sub-parsers: both egress and ingress parse the same.
#include <core.p4>
#include <psa.p4>

header shim_t {
    bit<8> to;
    bit<8> passes;
    bit<8> path;
}
struct of_t<T> { T shim; }
struct none_t { }

parser Parse<S>(packet_in packet, out S shim) {
    state start {
        packet.extract(shim);
        transition accept;
    }
}
parser IngressParse<H, M>(packet_in packet, out of_t<H> hdr, inout M meta, in psa_ingress_parser_input_metadata_t istd,
                    in none_t resubmitted, in none_t recirculated) {
    Parse<H>() inner;
    state start {
        inner.apply(packet, hdr.shim);
        transition accept;
    }
}
control In<M>(inout of_t<shim_t> hdr, inout M meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
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
control InDeparse<H>(packet_out packet, out none_t cloned, out none_t resubmitted, out none_t normal, inout H hdr,
                  in none_t meta, in psa_ingress_output_metadata_t istd) {
    apply { packet.emit(hdr); }
}
parser EgressParse<H>(packet_in packet, out of_t<H> hdr, inout none_t meta, in psa_egress_parser_input_metadata_t istd,
                   in none_t normal, in none_t cloned, in none_t cloned_again) {
    Parse<H>() inner;
    state start {
        inner.apply(packet, hdr.shim);
        transition accept;
    }
}
control Out(inout of_t<shim_t> hdr, inout none_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
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
control OutDeparse(packet_out packet, out none_t cloned, out none_t recirculated, inout of_t<shim_t> hdr, in none_t meta,
                   in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr); }
}

IngressPipeline(IngressParse<shim_t, none_t>(), In<none_t>(), InDeparse<of_t<shim_t>>()) ingress;
EgressPipeline(EgressParse<shim_t>(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
