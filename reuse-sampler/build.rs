//! Compiles the plugin of the `qemu` backend for the target, so that the library can carry it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for folder in ["plugin", "src/engine", "src/backends/qemu/shared"] {
        println!("cargo:rerun-if-changed={folder}");
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            println!("cargo:rerun-if-changed={}", file.path().display());
        }
    }
    println!("cargo:rustc-check-cfg=cfg(qemu_plugin)");
    println!("cargo:rustc-check-cfg=cfg(dbi_backend)");
    if env::var_os("CARGO_FEATURE_DBI").is_some()
        && env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64")
        && env::var("CARGO_CFG_TARGET_POINTER_WIDTH").as_deref() == Ok("64")
    {
        println!("cargo:rustc-cfg=dbi_backend");
    }
    let wanted = env::var_os("CARGO_FEATURE_QEMU").is_some()
        && env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && env::var("CARGO_CFG_TARGET_POINTER_WIDTH").as_deref() == Ok("64")
        && env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("little");
    if wanted {
        compile_plugin();
        println!("cargo:rustc-cfg=qemu_plugin");
    }
}

fn compile_plugin() {
    let output = Path::new(&variable("OUT_DIR")).join("plugin.so");
    let mut command = Command::new(variable("RUSTC"));
    command
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "reuse_sampler_plugin"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1", "-C", "lto=fat", "-C", "panic=abort"])
        .args(["-C", "strip=symbols", "-C", "debuginfo=0"])
        .args(["--cfg", "feature=\"replay\""])
        .args(["--cap-lints", "warn"])
        .arg("--target")
        .arg(variable("TARGET"));
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        command.args(["-C", "target-feature=-crt-static"]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        command.arg("-C").arg(option);
    }
    command.arg("-o").arg(&output).arg("plugin/lib.rs");
    let answer = command.output();
    match answer {
        Ok(answer) if answer.status.success() => {
            for line in String::from_utf8_lossy(&answer.stderr).lines().filter(|line| !line.is_empty()) {
                println!("cargo:warning={line}");
            }
        }
        Ok(answer) => {
            eprintln!("{}", String::from_utf8_lossy(&answer.stderr));
            fail("the plugin of the qemu backend does not compile");
        }
        Err(error) => fail(&format!("cannot run the compiler: {error}")),
    }
    if !fs::metadata(&output).is_ok_and(|file| file.len() > 0) {
        fail("the compiler wrote no plugin");
    }
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name).map_or_else(|| fail(&format!("{name} is not set")), PathBuf::from)
}

fn fail(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(1);
}
