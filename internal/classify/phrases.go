package classify

import (
	"github.com/bide-dev/bide/internal/pattern"
)

// The phrases, each as programs print it. They are in lists so that one can
// be added with the line of the corpus that needs it.

var networkPhrases = []string{
	`connection (?:was |has been )?(?:refused|reset|aborted|closed by|lost|broken)`, `connection to .{1,200} (?:refused|reset|closed|lost|failed)`,
	`reset by (?:peer|remote)`, `broken pipe`, `closed by (?:the )?remote (?:host|end|server|side)`, `(?:remote end|server|peer|the remote) (?:unexpectedly )?(?:hung up|closed the connection|closed connection)`,
	`empty reply from server`, `server closed the connection`, `lost connection to`, `socket hang up`, `unexpected disconnect`, `unexpected eof while reading`, `early eof`, `rpc failed; curl`,
	`error in socket io \(code 10\)`, `error in rsync protocol data stream \(code 12\)`, `no route to host`, `host is (?:down|unreachable)`, `network is (?:unreachable|down)`, `destination (?:host|net|port) unreachable`, `network unreachable`,
	`could(?:n't| not) connect`, `can(?:'t|not| not) connect to`, `failed to connect`, `unable to connect`, `connection failed`, `cannot reach`, `failed to establish a new connection`, `error connecting to`, `could not connect`,
	`unable to (?:access|look ?up|reach|resolve host)\b.{0,200}(?:resolve|connect|host)`,
	`could not resolve (?:host|proxy|address|server)`, `could not resolve '[\w.-]+'\s*$`, `can(?:'t|not) resolve host`, `unable to resolve (?:host|address|server)`, `failed to resolve (?:host|address|'|\[)`, `error resolving (?:host|address)`,
	`temporary failure (?:in name resolution|resolving)`, `name or service not known`, `nodename nor servname`, `no address associated with hostname`, `name resolution (?:failed|failure|error)`, `name does not resolve`, `getaddrinfo (?:failed|e[a-z_]+)`, `no such host`, `unknown host\b`, `bad address '`, `nxdomain`, `nameresolutionerror`, `unknownhostexception`,
	`\beconnrefused\b`, `\beconnreset\b`, `\beconnaborted\b`, `\benotfound\b`, `\behostunreach\b`, `\benetunreach\b`, `\behostdown\b`, `\beai_again\b`, `\bepipe\b`, `\berr_connection_refused\b`, `\berr_connection_reset\b`, `\berr_connection_closed\b`, `\berr_name_not_resolved\b`, `\berr_internet_disconnected\b`, `\berr_network\b`, `\berr_network_changed\b`,
	`tls handshake timeout`, `ssl_error_syscall`, `ssl connect error`, `tls connection was non-properly terminated`, `gnutls_handshake\(\) failed`, `i/o timeout`, `dial (?:tcp|udp)\b.{0,200}:`, `connect(?:ion)? timed out`, `connection timeout`, `etimedout`,
	`network error`, `network is not available`, `network connection (?:was )?lost`, `newconnectionerror`, `connectionerror\(`, `connectionreseterror`, `connectionrefusederror`, `remotedisconnected`, `java\.net\.(?:connect|socket|noroutetohost)exception`, `transport endpoint is not connected`, `software caused connection abort`, `connection error\b`, `curl: \((?:5|6|7|35|52|55|56|16|18|92)\)`, `http2 stream .{0,40}not closed cleanly`, `fetch failed`,
}

var timeoutPhrases = []string{
	`(?:operation|connection|connect|request|read|command|response|query|job|execution|attempt|session|process|test|wait|waiting|handshake|it|has|have|been|is|was|host|transfer|write|build|download|failed|lock|error|server|timer)s? timed[ -]out`,
	`timed[ -]out (?:after|waiting|while|in|on|reading|during|connecting|trying|at)\b`, `^timed[ -]out`, `[:(] ?timed[ -]out\b`, `deadline(?:_| )exceeded`, `operation timeout`, `request timeout`, `connection timeout`, `response timeout`,
	`i/o timeout`, `tls handshake timeout`, `timeout (?:of [\d.]+ ?m?s |was |has been |period )?(?:reached|exceeded|expired)`, `timeout (?:while|waiting|after|awaiting|error)\b`, `\betimedout\b`, `\besockettimedout\b`, `timeouterror:`, `timeoutexpired`, `readtimeout`, `connecttimeout`, `sockettimeoutexception`, `connecttimeoutexception`, `wait timeout exceeded`,
	`curl: \(28\)`, `canceling statement due to statement timeout`, `killed by timeout`,
}

var limitedPhrases = []string{
	`http/[\d.]+["']? 429`, `(?:error|status|code|response|http)[a-z ]{0,12}[:= ("']{1,3}429\b`, `429["')]?:? too many`, `\b429 client error`, `too many requests`, `toomanyrequests`, `\be429\b`, `error 429\b`,
	`rate[ _-]?limit(?:ed|s)? (?:exceeded|reached|hit|was|has been|error|for|of|will)`, `rate[ _-]?limit_?(?:exceeded|error|reached)`, `(?:hit|exceeded?|reached|over) (?:the |your |a |an |our |api |its )*(?:secondary |pull |api |request )?rate[ -]limit`, `rate[ -]limited\b`, `rate exceeded`,
	`throttling(?:exception|error)?\b.{0,40}(?:when calling|rate|exceeded|request)`, `throttlingexception`, `requestlimitexceeded`, `toomanyrequestsexception`, `request was throttled`, `\(slowdown\)`, `provisionedthroughputexceeded`, `resource_exhausted`, `resource has been exhausted`, `quota exceeded for quota metric`, `ratelimitexceeded`, `rate_limit_error`, `overloaded_error`, `\b529 overloaded`,
	`(?:hit|reached|exceeded) your (?:usage|session|weekly|daily|hourly|5-hour|monthly|opus|sonnet|\w+) limit`, `hit your limit`, `you have exhausted your (?:capacity|daily quota)`, `terminalquotaerror`, `(?:usage|session|weekly|daily|hourly|5-hour|opus|sonnet) limit (?:reached|exceeded|hit)`, `usage_limit_reached`, `limit reached .{0,20}resets`, `quota will reset after`, `exceeded your current quota`, `exhausted your (?:daily |capacity |current )?(?:quota|capacity)`, `you exceeded your .{0,20}quota`, `insufficient_quota`, `(?:^|[:(] ?|\b(?:api|error|request|token|daily|monthly|usage) )quota exceeded`,
}

// aboutPhrases are in lines that speak of a failure and do not tell of one.
var aboutPhrases = []string{
	`authentication failed`, `access denied`, `permission denied`, `^make(?:\[\d+\])?: \*\*\*`, `\b(?:expected|expects?|wanted|want|assert\w*|should(?:n't)?)\b`, `^\s*(?:ok|pass|passed|=== run|--- pass|✓|✔|√)\b`, `^\s*[✓✔√]`, `\bpassed\b`, `is not defined`, `cannot import`, `undefined:`, `no such (?:option|file)`, `unknown (?:flag|option|field|argument|key)`, `invalid (?:option|value|argument|choice)`, `unrecognized (?:option|argument)`, `^\s*usage:`, `syntaxerror`, `syntax error`, `importerror`, `nameerror`, `unexpected (?:argument|token)`, `unused`, `^\s*(?:#|//|\* |>>> )`, `^\s*[+-] ?(?:if|return|log|fmt|print|except|catch)`, `\b(?:added|fix(?:es|ed)?|docs?|feat|chore|refactor)(?:\([\w-]+\))?: `, `^\s*(?:func|def|class|import|from|const|var|let) `, `retry(?:ing)? succeeded`, `^[\w./-]+\.(?:md|txt|go|py|js|ts|rs):\d+:.*(?:todo|fixme|//|#)`,
}

var (
	network = all(networkPhrases)
	timeout = all(timeoutPhrases)
	limited = all(limitedPhrases)
	about   = all(aboutPhrases)

	// statusWords: one of them is in each line that tells of a server error.
	statusWords = []string{"http", "status", "response", "error", "code", "fail", "returned", "server", "gateway", "unavailable", "upstream", "e50"}
	// A status counts where one is: behind HTTP/1.1, error:, status, or
	// before its own words.
	serverStatus = pattern.Lazy(`http/[\d.]+["']? (5\d\d)\b|\b(?:http|status|response|error|errors?code|fail(?:ed|ure)|returned)(?:[ _-]?(?:status|error|code|response))*(?: of| was| with| from [^ ]+)?[:=]? ?["'(\[]{0,2}(50[0-4]|52\d)\b(?:["')\]:,.;]|\s*$|\s+(?:service|bad|gateway|internal|server|for|from|while|\())|\b(50[0-4]) (?:service (?:temporarily )?unavailable|bad gateway|gateway time-?out|internal server error|server error|origin)|\be(50[0-4])\b|received http code (50[0-4])|error (50[0-4]):`)
	serverWords  = pattern.Lazy(`internal server error|\bservice (?:temporarily )?unavailable\b|\bbad gateway\b|\bgateway time-?out\b|\bserver error[:.)]|\bserver error\s*$|upstream connect error|serviceunavailable`)
)
