//! A file is whole or absent, whatever goes wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use model::record::{RecordError, can_write, write_atomically};

use crate::record::support::{fresh_folder, names};

#[test]
fn a_written_file_is_whole_and_alone() {
    let folder = fresh_folder();
    let file = folder.join("manifest.json");
    for content in [b"first".as_slice(), b"", &[7; 3 << 20]] {
        write_atomically(&file, content).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), content);
        assert_eq!(names(&folder), ["manifest.json"], "no temporary file stays");
    }
}

#[test]
fn a_folder_that_is_missing_is_said_with_the_file() {
    let file = fresh_folder().join("absent").join("x.json");
    let refused = write_atomically(&file, b"x").unwrap_err();
    assert!(matches!(&refused, RecordError::Write { path, .. } if *path == file));
    assert!(refused.to_string().starts_with(&format!("cannot write {}: ", file.display())), "{refused}");
    assert!(!file.parent().unwrap().exists());
}

#[test]
fn a_file_that_cannot_be_replaced_leaves_nothing_behind() {
    // A folder with something in it cannot be renamed over, by no user: the write itself succeeds, the rename fails.
    let folder = fresh_folder();
    let file = folder.join("x.json");
    std::fs::create_dir(&file).unwrap();
    std::fs::write(file.join("inner"), "kept").unwrap();
    write_atomically(&file, b"new").unwrap_err();
    assert_eq!(names(&folder), ["x.json"], "the temporary file is removed");
    assert_eq!(std::fs::read(file.join("inner")).unwrap(), b"kept");
}

#[test]
fn a_folder_that_may_not_be_written_keeps_the_old_file() {
    let folder = fresh_folder();
    let file = folder.join("x.json");
    write_atomically(&file, b"old").unwrap();
    let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    if std::fs::write(folder.join("probe"), "").is_ok() {
        mode(0o755);
        testkit::skipped("this user may write everywhere");
        return;
    }
    let refused = write_atomically(&file, b"new");
    mode(0o755);
    assert!(matches!(refused, Err(RecordError::Write { .. })), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    assert_eq!(names(&folder), ["x.json"]);
}

/// `/dev/full` takes no byte: what a full disk says, without one.
#[test]
fn a_full_disk_is_an_error_and_the_old_file_stays() {
    let folder = fresh_folder();
    let file = folder.join("x.json");
    write_atomically(&file, b"old").unwrap();
    std::os::unix::fs::symlink(Path::new("/dev/full"), folder.join("x.json.part")).unwrap();
    let refused = write_atomically(&file, b"new").unwrap_err();
    let RecordError::Write { source, .. } = &refused else { panic!("{refused}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    assert_eq!(names(&folder), ["x.json"], "what could not be written is removed");
}

#[test]
fn what_is_no_regular_file_is_written_into() {
    let folder = fresh_folder();
    let (file, link, dangling) = (folder.join("file"), folder.join("link"), folder.join("dangling"));
    write_atomically(&file, b"old, and longer").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::os::unix::fs::symlink(folder.join("made"), &dangling).unwrap();
    for (place, kept) in [(&link, &file), (&dangling, &folder.join("made"))] {
        can_write(place).unwrap();
        write_atomically(place, b"new").unwrap();
        assert_eq!(std::fs::read(kept).unwrap(), b"new");
        assert!(place.is_symlink());
    }
    write_atomically(Path::new("/dev/null"), b"gone").unwrap();
    let full = write_atomically(Path::new("/dev/full"), b"x").unwrap_err();
    let RecordError::Write { source, .. } = &full else { panic!("{full}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(can_write(&folder).is_err(), "a folder is told before anything is measured");
}

#[test]
fn a_pipe_is_written_into_also_by_its_descriptor() {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let place = format!("/dev/fd/{}", writer.as_raw_fd());
    can_write(Path::new(&place)).unwrap();
    write_atomically(Path::new(&place), b"figures").unwrap();
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "figures");
}
