//! Puts the built console (`console/dist`) into the program: a table of its files, each with its brotli copy.
//!
//! Without a built console the table is empty and the server says how to build one, so that whoever works on the
//! Rust side alone needs no Node.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dist = Path::new("../../console/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(dist, &mut files)?;
    }
    let mut table = String::from("&[\n");
    let mut addresses = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_none_or(|kind| kind != "br")) {
        let address = file.strip_prefix(dist).map_err(io::Error::other)?;
        addresses.push((format!("/{}", address.display()), file));
    }
    // The server finds an address by halves.
    addresses.sort();
    for (address, file) in addresses {
        let packed = PathBuf::from(format!("{}.br", file.display()));
        let brotli = if files.contains(&packed) { format!("Some({})", bytes_of(&packed)?) } else { "None".to_owned() };
        let bytes = bytes_of(file)?;
        writeln!(table, "    Asset {{ path: {address:?}, bytes: {bytes}, brotli: {brotli} }},")
            .map_err(io::Error::other)?;
    }
    table.push(']');
    #[expect(clippy::disallowed_methods, reason = "cargo tells a build script its folder this way only")]
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("console.rs"), table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn bytes_of(file: &Path) -> io::Result<String> {
    Ok(format!("include_bytes!({:?})", fs::canonicalize(file)?.display().to_string()))
}
