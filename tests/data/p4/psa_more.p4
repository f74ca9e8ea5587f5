// A PSA program whose egress parses again: what goes beside a packet, and externs that only PSA has.
#include <core.p4>
#include <psa.p4>

header item_t {
    bit<8>  kind;
    bit<8>  a;
    bit<16> b;
    bit<16> c;
}
header tail_t { bit<16> sum; }
struct headers_t { item_t item; tail_t tail; }
struct resubmitted_t { bit<8> count; }
struct recirculated_t { bit<16> sum; }
struct normal_t { bit<16> number; }
struct cloned_t { bit<16> mark; }
struct ingress_t { bit<8> count; bit<16> sum; }
struct egress_t { bit<16> number; bit<16> mark; }

parser IngressParse(packet_in packet, out headers_t hdr, inout ingress_t meta, in psa_ingress_parser_input_metadata_t istd,
                    in resubmitted_t resubmitted, in recirculated_t recirculated) {
    state start {
        meta.count = 0;
        meta.sum = 0;
        packet.extract(hdr.item);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: again;
            PSA_PacketPath_t.RECIRCULATE: around;
            default: accept;
        }
    }
    state again {
        meta.count = resubmitted.count;
        transition accept;
    }
    state around {
        meta.sum = recirculated.sum;
        transition accept;
    }
}
control In(inout headers_t hdr, inout ingress_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Random<bit<16>>(16w5, 16w5) random;
    DirectMeter(PSA_MeterType_t.BYTES) meter;
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) coloured;
    action measure() {
        if (meter.execute() == PSA_MeterColor_t.GREEN) { hdr.item.a = 1; }
    }
    table measured {
        key = { hdr.item.kind: exact; }
        actions = { measure; NoAction; }
        default_action = NoAction;
        psa_direct_meter = meter;
    }
    apply {
        send_to_port(ostd, (PortId_t) 2);
        measured.apply();
        if (hdr.item.kind == 2 && meta.count < 2) {
            hdr.item.a = 0xff;
            ostd.resubmit = true;
        } else if (hdr.item.kind == 2) {
            hdr.item.a = hdr.item.a + meta.count;
        } else if (hdr.item.kind == 3 && istd.packet_path != PSA_PacketPath_t.RECIRCULATE) {
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else if (hdr.item.kind == 3) {
            hdr.item.b = meta.sum;
        } else if (hdr.item.kind == 4) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 5;
        } else if (hdr.item.kind == 5) {
            send_to_port(ostd, PSA_PORT_CPU);
        } else if (hdr.item.kind == 7) {
            hdr.item.b = random.read();
        } else if (hdr.item.kind == 9) {
            if (coloured.execute(0, PSA_MeterColor_t.RED) == PSA_MeterColor_t.RED) { hdr.item.a = 0; }
        }
    }
}
control InDeparse(packet_out packet, out cloned_t cloned, out resubmitted_t resubmitted, out normal_t normal, inout headers_t hdr,
                  in ingress_t meta, in psa_ingress_output_metadata_t istd) {
    InternetChecksum() sum;
    apply {
        if (psa_clone_i2e(istd)) {
            cloned.mark = 0x0bad;
        }
        if (psa_resubmit(istd)) {
            resubmitted.count = meta.count + 1;
        }
        if (psa_normal(istd)) {
            normal.number = 0x1200 + (bit<16>) hdr.item.kind;
        }
        if (hdr.item.kind == 6) {
            sum.clear();
            sum.add({ hdr.item.b, hdr.item.c });
            sum.subtract({ hdr.item.c });
            sum.add(16w0x0102);
            hdr.tail.setValid();
            hdr.tail.sum = sum.get();
        }
        packet.emit(hdr.tail);
        packet.emit(hdr.item);
    }
}
parser EgressParse(packet_in packet, out headers_t hdr, inout egress_t meta, in psa_egress_parser_input_metadata_t istd,
                   in normal_t normal, in cloned_t i2e, in cloned_t e2e) {
    state start {
        meta.number = 0;
        meta.mark = 0;
        transition select(istd.packet_path) {
            PSA_PacketPath_t.CLONE_I2E: copy;
            PSA_PacketPath_t.CLONE_E2E: late;
            default: usual;
        }
    }
    state copy {
        meta.mark = i2e.mark;
        transition items;
    }
    state late {
        meta.mark = e2e.mark;
        transition items;
    }
    state usual {
        meta.number = normal.number;
        transition select(normal.number) {
            0x1206: tail;
            default: items;
        }
    }
    state tail {
        packet.extract(hdr.tail);
        transition items;
    }
    state items {
        packet.extract(hdr.item);
        transition accept;
    }
}
control Eg(inout headers_t hdr, inout egress_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        if (istd.parser_error != error.NoError) {
            ostd.drop = true;
        }
        if (hdr.item.kind == 1) {
            hdr.item.b = meta.number;
        }
        if (meta.mark != 0) {
            hdr.item.c = meta.mark;
        } else if (hdr.item.kind == 8) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 5;
        }
    }
}
control EgDeparse(packet_out packet, out cloned_t cloned, out recirculated_t recirculated, inout headers_t hdr, in egress_t meta,
                  in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) {
            cloned.mark = 0x0eee;
        }
        if (psa_recirculate(istd, edstd)) {
            recirculated.sum = 0xabcd;
        }
        packet.emit(hdr.item);
        packet.emit(hdr.tail);
    }
}
IngressPipeline(IngressParse(), In(), InDeparse()) ingress;
EgressPipeline(EgressParse(), Eg(), EgDeparse()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
