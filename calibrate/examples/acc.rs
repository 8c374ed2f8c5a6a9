fn main() {
    let want = std::env::args().nth(1).unwrap_or_default();
    for (name, judge) in scaleproof_calibrate::accuracy::SETS {
        if !name.contains(&want) {
            continue;
        }
        let t = std::time::Instant::now();
        match judge(std::path::Path::new("/work/shared/data")) {
            Ok(set) => {
                if std::env::var("P").is_ok() {
                    println!("{}", set.profile.to_yaml(&[]));
                }
                print!("{}", scaleproof_calibrate::accuracy::markdown(&[set]))
            }
            Err(e) => println!("{name}: {e}"),
        }
        println!("{:?}", t.elapsed());
    }
}
