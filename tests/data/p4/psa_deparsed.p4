// Deparsers of PSA, which may write headers: `exit` in them, and what is written behind `emit`.
#include <core.p4>
#include <psa.p4>

header kind_t { bit<8> kind; bit<8> a; }
header item_t { bit<8> v; }
struct headers_t { kind_t h; item_t x; item_t y; }
struct note_t { bit<8> note; }
struct none_t { }

parser IngressParse(packet_in packet, out headers_t hdr, inout none_t meta, in psa_ingress_parser_input_metadata_t istd,
                    in note_t resubmitted, in note_t recirculated) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.x);
        packet.extract(hdr.y);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: again;
            PSA_PacketPath_t.RECIRCULATE: around;
            default: accept;
        }
    }
    state again {
        hdr.h.a = resubmitted.note;
        transition accept;
    }
    state around {
        hdr.h.a = recirculated.note;
        transition accept;
    }
}
control In(inout headers_t hdr, inout none_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        send_to_port(ostd, (PortId_t) 2);
        if (hdr.h.kind == 6 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            ostd.resubmit = true;
            exit;
        }
        if (hdr.h.kind == 7 && istd.packet_path == PSA_PacketPath_t.NORMAL) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }
    }
}
control InDeparse(packet_out packet, out none_t cloned, out note_t resubmitted, out note_t normal, inout headers_t hdr,
                  in none_t meta, in psa_ingress_output_metadata_t istd) {
    action stop() { exit; }
    apply {
        packet.emit(hdr.h);
        if (hdr.h.kind == 6) {
            resubmitted.note = 0x66;
            exit;
        }
        normal.note = 4;
        if (hdr.h.kind == 1) { exit; }
        if (hdr.h.kind == 2) {
            hdr.x.v = hdr.x.v + 1;
            packet.emit(hdr.x);
            hdr.x.v = 0xff;
            normal.note = 5;
            stop();
        }
        packet.emit(hdr.x);
        packet.emit(hdr.y);
    }
}
parser EgressParse(packet_in packet, out headers_t hdr, inout note_t meta, in psa_egress_parser_input_metadata_t istd,
                   in note_t normal, in none_t cloned, in none_t cloned_again) {
    state start {
        meta.note = normal.note;
        packet.extract(hdr.h);
        packet.extract(hdr.x);
        transition accept;
    }
}
control Out(inout headers_t hdr, inout note_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply { if (hdr.h.kind < 6) { hdr.h.a = meta.note; } }
}
control OutDeparse(packet_out packet, out none_t cloned, out note_t recirculated, inout headers_t hdr, in note_t meta,
                   in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        packet.emit(hdr.h);
        if (hdr.h.kind == 3) {
            hdr.x.setInvalid();
            hdr.h.a = 0x77;
        }
        packet.emit(hdr.x);
        if (hdr.h.kind == 7) {
            recirculated.note = 0x55;
            exit;
        }
        if (hdr.h.kind == 4) { exit; }
        hdr.y.setValid();
        hdr.y.v = hdr.h.a;
        packet.emit(hdr.y);
    }
}

IngressPipeline(IngressParse(), In(), InDeparse()) ingress;
EgressPipeline(EgressParse(), Out(), OutDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
