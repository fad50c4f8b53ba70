//! Processors whose events their manufacturers list, with each list's version and hash.

// Written by .ci/event-tables from .ci/event-tables.csv: change that.

use super::{AMD_PRECISE, Match, Microarchitecture, NamedEvent, Precise, RAW, event, listed, loads, stores};

const MEM_INST_RETIRED_0: &[NamedEvent] =
    &[event("mem_inst_retired.loads", RAW, 0x010b), event("mem_inst_retired.stores", RAW, 0x020b)];
const MEM_UOPS_RETIRED_1: &[NamedEvent] =
    &[event("mem_uops_retired.all_loads", RAW, 0x4004), event("mem_uops_retired.all_stores", RAW, 0x8004)];
const MEM_UOPS_RETIRED_2: &[NamedEvent] =
    &[event("mem_uops_retired.all_loads", RAW, 0x81d0), event("mem_uops_retired.all_stores", RAW, 0x82d0)];
const MEM_UOPS_RETIRED_2_PRECISE: &[Precise] = &[loads(MEM_UOPS_RETIRED_2[0]), stores(MEM_UOPS_RETIRED_2[1])];
const MEM_INST_RETIRED_3: &[NamedEvent] =
    &[event("mem_inst_retired.all_loads", RAW, 0x81d0), event("mem_inst_retired.all_stores", RAW, 0x82d0)];
const MEM_INST_RETIRED_3_PRECISE: &[Precise] = &[loads(MEM_INST_RETIRED_3[0]), stores(MEM_INST_RETIRED_3[1])];
const LS_DISPATCH_4: &[NamedEvent] = &[event("ls_dispatch.all", RAW, 0x0729)];
const LD_RETIRED_5: &[NamedEvent] = &[event("ld_retired", RAW, 0x0006), event("st_retired", RAW, 0x0007)];
const MEM_ACCESS_6: &[NamedEvent] = &[event("mem_access", RAW, 0x0013)];

pub(super) const LISTED: &[Microarchitecture] = &[
    // intel/NHM-EX/events/NehalemEX_core.json V4, SHA-256 2bebfb982204b819
    listed("Intel Nehalem-EX", Match::X86("GenuineIntel", 6, &[46]), MEM_INST_RETIRED_0, &[]),
    // intel/NHM-EP/events/NehalemEP_core.json V4, SHA-256 8106a8b383cd63e5
    listed("Intel Nehalem", Match::X86("GenuineIntel", 6, &[26, 30, 31]), MEM_INST_RETIRED_0, &[]),
    // intel/WSM-EX/events/WestmereEX_core.json V4, SHA-256 fe696c67196e14db
    listed("Intel Westmere-EX", Match::X86("GenuineIntel", 6, &[47]), MEM_INST_RETIRED_0, &[]),
    // intel/WSM-EP-SP/events/WestmereEP-SP_core.json V4, SHA-256 ea28578142f3b2a7
    listed("Intel Westmere", Match::X86("GenuineIntel", 6, &[37]), MEM_INST_RETIRED_0, &[]),
    // intel/WSM-EP-DP/events/WestmereEP-DP_core.json V5, SHA-256 276f3ceba0f99954
    listed("Intel Westmere-EP", Match::X86("GenuineIntel", 6, &[44]), MEM_INST_RETIRED_0, &[]),
    // intel/SLM/events/Silvermont_core.json V15, SHA-256 11b5f6481e5985d0
    listed("Intel Silvermont", Match::X86("GenuineIntel", 6, &[55, 74, 76, 77, 90]), MEM_UOPS_RETIRED_1, &[]),
    // intel/GLM/events/goldmont_core.json V13, SHA-256 6d3d33d36c55d85a
    listed(
        "Intel Goldmont",
        Match::X86("GenuineIntel", 6, &[92, 95]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/SNB/events/sandybridge_core.json V19, SHA-256 4092a6980f93a163
    listed("Intel Sandy Bridge", Match::X86("GenuineIntel", 6, &[42]), MEM_UOPS_RETIRED_2, &[]),
    // intel/JKT/events/Jaketown_core.json V24, SHA-256 b8de4b2351217124
    listed("Intel Sandy Bridge-EP", Match::X86("GenuineIntel", 6, &[45]), MEM_UOPS_RETIRED_2, &[]),
    // intel/IVB/events/ivybridge_core.json V24, SHA-256 5f17c7c1a916ee9b
    listed("Intel Ivy Bridge", Match::X86("GenuineIntel", 6, &[58]), MEM_UOPS_RETIRED_2, &[]),
    // intel/IVT/events/ivytown_core.json V24, SHA-256 d4492c41356b28e8
    listed("Intel Ivy Bridge-EP", Match::X86("GenuineIntel", 6, &[62]), MEM_UOPS_RETIRED_2, &[]),
    // intel/HSW/events/haswell_core.json V36, SHA-256 dae228da86826e0e
    listed(
        "Intel Haswell",
        Match::X86("GenuineIntel", 6, &[60, 69, 70]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/HSX/events/haswellx_core.json V29, SHA-256 2775325b691d2f0a
    listed(
        "Intel Haswell-EP",
        Match::X86("GenuineIntel", 6, &[63]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/BDW/events/broadwell_core.json V30, SHA-256 3ad842e2dc32fc65
    listed(
        "Intel Broadwell",
        Match::X86("GenuineIntel", 6, &[61, 71]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/BDX/events/broadwellx_core.json V23, SHA-256 9ac4f9d2ef71fdc4
    listed(
        "Intel Broadwell-EP",
        Match::X86("GenuineIntel", 6, &[79]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/BDW-DE/events/broadwellde_core.json V12, SHA-256 871e8de83cb62163
    listed(
        "Intel Broadwell-DE",
        Match::X86("GenuineIntel", 6, &[86]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/SKL/events/skylake_core.json V59, SHA-256 1c79986fe874bd86
    listed(
        "Intel Skylake to Comet Lake",
        Match::X86("GenuineIntel", 6, &[78, 94, 142, 158, 165, 166]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/KNL/events/knightslanding_core.json V16, SHA-256 884db6335f73411d
    listed("Intel Knights Landing", Match::X86("GenuineIntel", 6, &[87, 133]), MEM_UOPS_RETIRED_1, &[]),
    // intel/SKX/events/skylakex_core.json V1.37, SHA-256 060364a7735822c8
    listed(
        "Intel Skylake-SP or Cascade Lake",
        Match::X86("GenuineIntel", 6, &[85]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/GLP/events/goldmontplus_core.json V1.01, SHA-256 b7dcd8b36b9e58d1
    listed(
        "Intel Goldmont Plus",
        Match::X86("GenuineIntel", 6, &[122]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/ICL/events/icelake_core.json V1.24, SHA-256 750cf1391b4733ec
    listed(
        "Intel Ice Lake",
        Match::X86("GenuineIntel", 6, &[125, 126]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/RKL/events/rocketlake_core.json V1.04, SHA-256 fdd55dc462c1c560
    listed(
        "Intel Rocket Lake",
        Match::X86("GenuineIntel", 6, &[167]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/SNR/events/snowridgex_core.json V1.23, SHA-256 fafa99ca8d2a4e48
    listed(
        "Intel Snow Ridge",
        Match::X86("GenuineIntel", 6, &[134]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/TGL/events/tigerlake_core.json V1.19, SHA-256 a2c0d4f8ed5d3842
    listed(
        "Intel Tiger Lake",
        Match::X86("GenuineIntel", 6, &[140, 141]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/SPR/events/sapphirerapids_core.json V1.39, SHA-256 82dd46b1d795dc0a
    listed(
        "Intel Sapphire Rapids",
        Match::X86("GenuineIntel", 6, &[143]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/EMR/events/emeraldrapids_core.json V1.24, SHA-256 085202edceb96e77
    listed(
        "Intel Emerald Rapids",
        Match::X86("GenuineIntel", 6, &[207]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/ICX/events/icelakex_core.json V1.30, SHA-256 e190aada074238e4
    listed(
        "Intel Ice Lake-SP",
        Match::X86("GenuineIntel", 6, &[106, 108]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/EHL/events/elkhartlake_core.json V1.05, SHA-256 8ac843f1cd946af6
    listed(
        "Intel Elkhart Lake",
        Match::X86("GenuineIntel", 6, &[150, 156]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/ADL/events/alderlake_goldencove_core.json V1.40, SHA-256 353f5675b95d37cb
    listed(
        "Intel Alder Lake",
        Match::X86("GenuineIntel", 6, &[151, 154, 183, 186, 191]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/ADL/events/alderlake_gracemont_core.json V1.40, SHA-256 187e67ecfd6ad12b
    listed(
        "Intel Alder Lake-N",
        Match::X86("GenuineIntel", 6, &[190]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/MTL/events/meteorlake_redwoodcove_core.json V1.22, SHA-256 160aa096f652d6d2
    listed(
        "Intel Meteor Lake",
        Match::X86("GenuineIntel", 6, &[170, 172, 181]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/GNR/events/graniterapids_core.json V1.20, SHA-256 7772cba8bf622b05
    listed(
        "Intel Granite Rapids",
        Match::X86("GenuineIntel", 6, &[173, 174]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/SRF/events/sierraforest_core.json V1.18, SHA-256 ad8c302afe270ba4
    listed(
        "Intel Sierra Forest",
        Match::X86("GenuineIntel", 6, &[175]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/GRR/events/grandridge_core.json V1.13, SHA-256 4d9e376bad5df1a3
    listed(
        "Intel Grand Ridge",
        Match::X86("GenuineIntel", 6, &[182]),
        MEM_UOPS_RETIRED_2,
        MEM_UOPS_RETIRED_2_PRECISE,
    ),
    // intel/LNL/events/lunarlake_lioncove_core.json V1.26, SHA-256 a5b6e10ade18c109
    listed(
        "Intel Lunar Lake",
        Match::X86("GenuineIntel", 6, &[189]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/ARL/events/arrowlake_lioncove_core.json V1.20, SHA-256 e4782a4fa2219248
    listed(
        "Intel Arrow Lake",
        Match::X86("GenuineIntel", 6, &[197, 198]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/PTL/events/pantherlake_cougarcove_core.json V1.07, SHA-256 1eb2695d4b0c1132
    listed(
        "Intel Panther Lake",
        Match::X86("GenuineIntel", 6, &[204, 213, 229]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // intel/CWF/events/clearwaterforest_core.json V1.04, SHA-256 b7a48b017736d098
    listed("Intel Clearwater Forest", Match::X86("GenuineIntel", 6, &[221]), MEM_UOPS_RETIRED_2, &[]),
    // intel/NVL/events/novalake_coyotecove_core.json V1.00, SHA-256 6d4b8d138a1682e0
    listed(
        "Intel Nova Lake",
        Match::X86("GenuineIntel", 24, &[1, 3]),
        MEM_INST_RETIRED_3,
        MEM_INST_RETIRED_3_PRECISE,
    ),
    // linux/amdzen2/memory.json 313267e59070
    listed("AMD Zen or Zen 2", Match::X86("AuthenticAMD", 23, &[]), LS_DISPATCH_4, AMD_PRECISE),
    // linux/amdzen4/memory.json 0604aa87b098
    listed("AMD Zen 3 or Zen 4", Match::X86("AuthenticAMD", 25, &[]), LS_DISPATCH_4, AMD_PRECISE),
    // linux/amdzen5/load-store.json 67f8bc848ee3
    listed("AMD Zen 5", Match::X86("AuthenticAMD", 26, &[]), LS_DISPATCH_4, AMD_PRECISE),
    // arm/pmu/cortex-a32.json 6aeb4c89a62b, SHA-256 7e323475668a0d09
    listed("Arm Cortex-A32", Match::Arm(0x41, 0xd01), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a34.json 6aeb4c89a62b, SHA-256 d2666b44a812512e
    listed("Arm Cortex-A34", Match::Arm(0x41, 0xd02), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a35.json 6aeb4c89a62b, SHA-256 97c05db2a53f85e2
    listed("Arm Cortex-A35", Match::Arm(0x41, 0xd04), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a510.json 6aeb4c89a62b, SHA-256 45d5fd73ce46e627
    listed("Arm Cortex-A510", Match::Arm(0x41, 0xd46), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a520.json 6aeb4c89a62b, SHA-256 5402053c0e25cecd
    listed("Arm Cortex-A520", Match::Arm(0x41, 0xd80), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a53.json 6aeb4c89a62b, SHA-256 9451276e6edfb8be
    listed("Arm Cortex-A53", Match::Arm(0x41, 0xd03), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a55.json 6aeb4c89a62b, SHA-256 0a0748844beb39ad
    listed("Arm Cortex-A55", Match::Arm(0x41, 0xd05), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a57.json 6aeb4c89a62b, SHA-256 f12d8f65d02542bf
    listed("Arm Cortex-A57", Match::Arm(0x41, 0xd07), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a65.json 6aeb4c89a62b, SHA-256 91cf5758adf36934
    listed("Arm Cortex-A65", Match::Arm(0x41, 0xd06), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a65ae.json 6aeb4c89a62b, SHA-256 c7c26bd0e75c8b6b
    listed("Arm Cortex-A65AE", Match::Arm(0x41, 0xd43), LD_RETIRED_5, &[]),
    // arm/pmu/cortex-a710.json 6aeb4c89a62b, SHA-256 4d0b193374cc080c
    listed("Arm Cortex-A710", Match::Arm(0x41, 0xd47), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a715.json 6aeb4c89a62b, SHA-256 76d2e3b88bfd1bb7
    listed("Arm Cortex-A715", Match::Arm(0x41, 0xd4d), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a72.json 6aeb4c89a62b, SHA-256 25cb1b5a2059ba92
    listed("Arm Cortex-A72", Match::Arm(0x41, 0xd08), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a720.json 6aeb4c89a62b, SHA-256 5890bc23228969e3
    listed("Arm Cortex-A720", Match::Arm(0x41, 0xd81), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a73.json 6aeb4c89a62b, SHA-256 0e6b4c771ec98b0c
    listed("Arm Cortex-A73", Match::Arm(0x41, 0xd09), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a75.json 6aeb4c89a62b, SHA-256 848c5293ffc43eba
    listed("Arm Cortex-A75", Match::Arm(0x41, 0xd0a), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a76.json 6aeb4c89a62b, SHA-256 9c06a56c2790e5bb
    listed("Arm Cortex-A76", Match::Arm(0x41, 0xd0b), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a76ae.json 6aeb4c89a62b, SHA-256 7a8e07adc0550505
    listed("Arm Cortex-A76AE", Match::Arm(0x41, 0xd0e), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a77.json 6aeb4c89a62b, SHA-256 2d088f5780162251
    listed("Arm Cortex-A77", Match::Arm(0x41, 0xd0d), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a78.json 6aeb4c89a62b, SHA-256 9c844001d31ba748
    listed("Arm Cortex-A78", Match::Arm(0x41, 0xd41), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-a78c.json 6aeb4c89a62b, SHA-256 945aaea5eb66adf8
    listed("Arm Cortex-A78C", Match::Arm(0x41, 0xd4b), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-x1.json 6aeb4c89a62b, SHA-256 6a62fec779ee8310
    listed("Arm Cortex-X1", Match::Arm(0x41, 0xd44), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-x1c.json 6aeb4c89a62b, SHA-256 85ee2ba82e9cd7d6
    listed("Arm Cortex-X1C", Match::Arm(0x41, 0xd4c), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-x2.json 6aeb4c89a62b, SHA-256 a2c979e5850e93d6
    listed("Arm Cortex-X2", Match::Arm(0x41, 0xd48), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-x3.json 6aeb4c89a62b, SHA-256 e80f1e8605a98ac3
    listed("Arm Cortex-X3", Match::Arm(0x41, 0xd4e), MEM_ACCESS_6, &[]),
    // arm/pmu/cortex-x4.json 6aeb4c89a62b, SHA-256 82438db8ff7c971d
    listed("Arm Cortex-X4", Match::Arm(0x41, 0xd82), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-e1.json 6aeb4c89a62b, SHA-256 ffa43dbfd18b6928
    listed("Arm Neoverse E1", Match::Arm(0x41, 0xd4a), LD_RETIRED_5, &[]),
    // arm/pmu/neoverse-n1.json 6aeb4c89a62b, SHA-256 7763db0ae04c87f6
    listed("Arm Neoverse N1", Match::Arm(0x41, 0xd0c), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-n2.json 6aeb4c89a62b, SHA-256 5f69d35636310cac
    listed("Arm Neoverse N2", Match::Arm(0x41, 0xd49), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-n3.json 6aeb4c89a62b, SHA-256 9fa84dbbe813a3ec
    listed("Arm Neoverse N3", Match::Arm(0x41, 0xd8e), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-v1.json 6aeb4c89a62b, SHA-256 fd4e400dbae48d7d
    listed("Arm Neoverse V1", Match::Arm(0x41, 0xd40), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-v2.json 6aeb4c89a62b, SHA-256 c1c4e115fd7a5667
    listed("Arm Neoverse V2", Match::Arm(0x41, 0xd4f), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-v3.json 6aeb4c89a62b, SHA-256 db6ec1e5f640643f
    listed("Arm Neoverse V3", Match::Arm(0x41, 0xd84), MEM_ACCESS_6, &[]),
    // arm/pmu/neoverse-v3ae.json 6aeb4c89a62b, SHA-256 61caa69b41e6761a
    listed("Arm Neoverse V3AE", Match::Arm(0x41, 0xd83), MEM_ACCESS_6, &[]),
    // arm/pmu/rainier.json 6aeb4c89a62b, SHA-256 61b64196611ff044
    listed("Arm Rainier", Match::Arm(0x3f, 0x412), MEM_ACCESS_6, &[]),
];
