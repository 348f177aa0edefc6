package scenario

// Goal is a goal of the project: a measure of Bellerophon, alone or beside peers.
type Goal struct {
	// Row is the place in the table of goals. A goal without a row comes last, in the order of the
	// scenarios.
	Row     int
	Name    string
	Measure string // the name of a measure of package report
	// Else lists scenarios whose rounds stand in if the goal's own has no rounds of both sides.
	Else []string
	// MinLoad and MaxLoad are the loads that the goal is about, in percent. 0 and 0 mean any.
	MinLoad, MaxLoad float64
	N                float64 // objects that the goal names; 0 uses the largest number
	MinN             float64 // the smallest number of objects that the goal is about
	RTT              float64 // the round trip that the goal is about, in milliseconds; 0 is loopback
	Targets          []Target
}

// Suits reports whether a goal is about a number of objects, a load and a round trip. Each is at most 0
// if the variant has none.
func (g Goal) Suits(n, load, rtt float64) bool {
	return max(n, 0) >= g.MinN && max(rtt, 0) == g.RTT && (g.MaxLoad == 0 || (g.MinLoad <= load && load <= g.MaxLoad))
}

// Way is how a goal is measured.
type Way int

// The ways.
const (
	Ratio   Way = iota // our median divided by the peer's
	Rate               // the peer's median divided by ours: for times, the ratio of the rates
	Level              // our median
	Ceiling            // the largest value of our rounds: a count that must be 0 must be 0 in every round
)

// Target is the value that a goal has to reach beside a peer.
type Target struct {
	Peer  string // a contender; floor and none name targets without a peer
	By    Way
	Sign  string // <=, >= or =
	Bound float64
}

// AtMost returns a target for the ratio of our median to the peer's.
func AtMost(peer string, bound float64) Target { return Target{peer, Ratio, "<=", bound} }
