# Makes trace.csv, a small trace of nobody's: awk -f make-trace.awk > trace.csv
#
# 400 requests in bursts of five, a burst every two seconds and every twentieth after a pause of ten. Three of four are
# chats of 200 to 999 tokens, the fourth is a document of 3,000 to 9,399. Lengths step through their range by a number
# that shares no factor with it, so they look irregular and need no random number.
BEGIN {
    print "arrival_s,input_tokens,output_tokens"
    for (i = 0; i < 400; i++) {
        burst = int(i / 5)
        arrival_s = 2 * burst + 10 * int(burst / 20) + 0.05 * (i % 5)
        chat = i % 4 < 3
        input = chat ? 200 + (i * 367) % 800 : 3000 + (i * 2741) % 6400
        output = chat ? 60 + (i * 73) % 240 : 150 + (i * 131) % 350
        printf "%.2f,%d,%d\n", arrival_s, input, output
    }
}
