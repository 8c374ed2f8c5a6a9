//! The words of the pages, folded at the end of each. docs/metrics.md has the formulas.

/// HTML.
pub(super) const GLOSSARY: &str = "<details>\n<summary>What the words mean</summary>\n<dl>\n\
<dt>TTFT, TPOT, E2E</dt><dd>Time to first token; mean time per output token after the first; time to the last token. \
From sending, at the client.</dd>\n\
<dt>P50, P95</dt><dd>The time that 50 % or 95 % of the successes do not exceed.</dd>\n\
<dt>cutoff</dt><dd>The TTFT and the TPOT that a class's request may take. A request is judged by its own two times; P95s \
beside the cutoffs explain, and gate nothing.</dd>\n\
<dt>attainment</dt><dd>Share of the successes of a class inside both of its cutoffs. Of attempts: the same with every \
failure counted as a miss.</dd>\n\
<dt>goodput</dt><dd>Successes inside both of their cutoffs, per second.</dd>\n\
<dt>gates</dt><dd>What a rate must pass: attainment and number of successes of every class, error rate, queue trend.</dd>\n\
<dt>capacity</dt><dd>The highest offered rate found to pass every gate. Headroom: capacity less the peak. Utilization: \
peak over capacity.</dd>\n\
<dt>open loop, closed loop</dt><dd>Requests arrive at a rate whatever becomes of them; or each of a number of clients sends \
its next one after an answer, and so slows down with the system.</dd>\n\
<dt>saturation</dt><dd>The lowest tested number of clients within 5 % of a closed loop's highest throughput.</dd>\n\
<dt>cold, warm</dt><dd>Prompts share nothing; or prompts share prefixes, and those were in the cache before the window \
began.</dd>\n\
<dt>prefix hits, evictions</dt><dd>Prompt tokens found in the cache over those looked up; cached blocks thrown out for \
others.</dd>\n\
<dt>window</dt><dd>What is measured: from the first arrival after the warm-up to the end of the last request.</dd>\n\
<dt>queue trend</dt><dd>Whether more requests wait in the end than in the beginning, beyond chance.</dd>\n\
</dl>\n</details>\n";
