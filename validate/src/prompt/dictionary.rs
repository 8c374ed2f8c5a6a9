//! Words to make prompts of.

/// Common words, most of them one token of most vocabularies, and at the end pairs of letters, which small vocabularies
/// have too. Which of them are is asked of the server.
pub(super) const WORDS: &str = "\
    able about above access account act action active add address after again age air all allow also always \
    amount and another answer any area argument array art ask associated at available back bad bar base \
    basic be because become before begin behavior being below best better between big bit block board body \
    book both box break bring build business but by byte call can cannot car card care case cause center \
    change character check child choice city class clean clear client close code cold collect color column \
    come command comment common company complete condition config connection contain content context control \
    convert copy core correct cost could count country course cover create current cut data date day dead \
    deal decode deep default define delete depth design detail device different digit direct directory do \
    document does done door down draw drive drop due during each early east easy edit effect either element \
    else empty enable end energy enough entry equal error even event every exact example except execute exist \
    exit expect experience explain export extend extra face fact fail fall false family far fast father field \
    figure file fill final find finish fire first fix flag flat float floor flow follow food foot for force \
    form format forward found frame free friend from front full function future game general get girl give \
    go good great green ground group grow half hand handle happen hard has have head hear heart heat help \
    here high hold home hope hot hour house how human idea if image import include index info input inside \
    install instance int interest internal into invalid is issue item it job join just keep key kind know \
    label land language large last late later law lead learn least leave left legal length less let letter \
    level life light like limit line link list little live load local lock log long look loop loss lot love \
    low machine main make man many map mark market match matter may mean measure media member memory message \
    method middle might mind minute miss missing mode model module money month more morning most mother mouth \
    move much multiple music must name national near need network never new next night node none normal north \
    not note nothing now null number object of off office often old on once one only open operation option \
    or order other our out output outside over own pack page paper parent part pass past path pattern pay \
    people per perform period person pick piece place plan plant play point policy pool poor port position \
    possible post power present president press price print private problem process product program project \
    property provide public pull purpose push put question queue quick range rate raw reach read ready real \
    reason receive record red reduce reference region register release remain remove repeat replace report \
    request require reset resource rest result return right rise risk road role room root round row rule \
    run safe same sample save say scale school science scope score screen script search second section see \
    seek select self send sense sequence series serve server service session set shape share shell short \
    should show side sign simple since single size skip slot slow small so social some sort sound source \
    south space special specific speed split stack staff stage stand standard star start state static status \
    stay step still stop store story stream street string strong student study style subject such support \
    sure system table take talk target task team tell term test text than that the their them then there \
    these they thing think this those three through time title today together token tool top total town \
    trace trade train tree trial true try turn two type under union unique unit until up update upper use \
    user valid value very view visit wait walk wall want war warm watch water way we week weight well west \
    what when where which while white who whole why wide width wife will win window wish with within without \
    woman word work world worth would write wrong yes yet you young zero zone \
    ad ah ai am ax ba bi bo co da de di du ed el em en er es et eu ex fa fi fo fr ga ge ha he hi ho ia id ii \
    im in ir iv jo ka ki ko la le li lo lu ma me mi mo mu my na ne ni nu ob oh ok om os ot ox pa pe pi po pr \
    ra re ri ro sa se si sk st su sw sy ta te th ti un us ut va ve vi vo wa wh ye za ze";
