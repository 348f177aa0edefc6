package recording

import (
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Record is one entry of a recording. One of its pointers is set, or Events.
type Record struct {
	At       int64  // nanoseconds since 1970, by the system clock
	Position uint64 // the number of batches, and of own writes, that the cache showed

	Header   *Header
	Served   *Served
	Watch    *Watch
	Object   *Object
	Events   []Event       // one batch, which the cache has applied at Position
	Removed  []streams.Key // what a list of the batch has removed from the cache
	Own      *OwnWrite
	Start    *Start
	Read     *Read
	Exchange *Exchange
	End      *End
	Closed   bool   // the file is complete, and this is its last record
	Mark     string // what else happened, such as a change of the leader

	// State is the state of the manager: the JSON of introspection.State without its time. There is one every two
	// seconds, if it has changed. A recording of an earlier version has none.
	State []byte

	// Batch has further records, in their order. Only files have records with a batch, and with nothing else: to encode
	// records together takes three quarters of the time.
	Batch []Record
}

// Time returns when the record was made.
func (r *Record) Time() time.Time { return time.Unix(0, r.At) }

// Attempt returns the number of the attempt that the record belongs to, or 0.
func (r *Record) Attempt() uint64 {
	switch {
	case r.Start != nil:
		return r.Start.Attempt
	case r.Read != nil:
		return r.Read.Attempt
	case r.Exchange != nil:
		return r.Exchange.Attempt
	case r.End != nil:
		return r.End.Attempt
	}
	return 0
}

// Header begins each file.
type Header struct {
	Format      int
	Version     string                      // of the program that was recorded
	UserAgent   string                      // of its requests
	Controllers []string                    // that the manager had when it began
	Reconciled  map[string]schema.GroupKind // the kinds that these controllers reconcile
	IsBase      bool                        // the file is a base: what existed before the records that follow
}

// Served is the API server's answer to a question about its resources.
type Served struct {
	Path   string
	Type   string // Content-Type, which says whether an answer about groups has their resources, too
	Answer []byte // JSON
}

// Watch is the beginning or the end of the watch of a kind on demand.
type Watch struct {
	Kind  schema.GroupKind
	Ended bool
}

// Object is a version of an object, as a watch brought it.
type Object struct {
	Key             streams.Key
	ResourceVersion string
	Body            []byte
	IsProto         bool // the body is in protobuf; otherwise in JSON
}

// OwnWrite is a write of the program that belongs to no attempt. Attempts read it before the watch brings it. A recording
// of an earlier version has none.
type OwnWrite struct {
	Object  // without a body if the object is deleted
	UID     types.UID
	Deleted bool
}

// Event is an event that the cache applied. The object of the event is a record before it.
type Event struct {
	Type            streams.EventType
	Reset           bool
	Source          string
	Key             streams.Key
	ResourceVersion string
	HasObject       bool
	Received        int64 // nanoseconds since 1970
	Coalesced       []streams.Cause
	Change          streams.ChangeType // of the cache; 0 if it emitted none
}

// Start is the beginning of an attempt.
type Start struct {
	Attempt uint64
	ID      string // the reconcileID of logs
	Request operators.Request
	Started int64         // nanoseconds since 1970; 0 in a recording of an earlier version
	Queued  time.Duration // from ready to run until started, at least 1 ns; 0 in a recording of an earlier version
	Stalled *Stalled      // nil unless the object is in a pattern that does not end by itself
}

// Stalled describes the pattern that the object of an attempt is in. A recording of an earlier version has the first three
// fields alone.
type Stalled struct {
	Reason  string
	Message string
	Left    time.Duration // until the pattern has ended, without a further round

	Pattern  string      // fight or hot_loop
	Written  streams.Key // the object that is written again and again
	Fields   []string    // the paths that both sides of a fight change
	Managers []string
	Rounds   int   // so far
	Since    int64 // nanoseconds since 1970
	Last     int64
}

// Name returns the name of the object that the attempt reconciles.
func (s *Start) Name() types.NamespacedName { return s.Request.NamespacedName }

// Read says that an attempt read the cache at a later position, or at a later time, than its other records say. Or an
// own write of the attempt became visible, which has a position of its own.
type Read struct {
	Attempt uint64
	Number  int // of the reads and writes of the attempt, from 1
	Writes  bool
}

// Exchange is a request of an attempt to the API server, and the answer. Its record has the position at which the
// attempt got the answer.
type Exchange struct {
	Attempt     uint64
	Method      string
	URL         string // the path and the query
	ContentType string
	Body        []byte
	Sent        int64 // nanoseconds since 1970

	Code       int    // of the answer; 0 if there was none
	AnswerType string // Content-Type
	RetryAfter string
	Answer     []byte
	Err        string // if there was no answer, or it broke off
}

// End is the end of an attempt.
type End struct {
	Attempt   uint64
	Again     time.Duration
	Err       string
	Terminal  bool
	Panicked  bool
	Cancelled bool // its context had ended
}
