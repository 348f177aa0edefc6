package loop

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// slots runs commands beside the reconciler, at most one for each slot. Its methods may be called from any goroutine.
type slots struct {
	ended func() // called after a command has ended

	mu    sync.Mutex
	group *lifecycle.Group // nil while run does not run
	slots map[string]*slot
}

// slot is the last start of a command.
type slot struct {
	id      string // what was started, for which inputs
	stop    context.CancelCauseFunc
	done    chan struct{} // closed when the command has ended
	starts  int
	started time.Time
	lasted  time.Duration // once it has ended
	outcome contract.Outcome
	exit    int
	err     error // why it is unknown how the command ended
	output  tail
}

// state is the state of a slot.
type state struct {
	id      string
	command contract.Command
	err     error
	lasted  time.Duration // how long a command that has ended took
	isSet   bool          // whether a command was started
}

func newSlots(ended func()) *slots { return &slots{ended: ended, slots: map[string]*slot{}} }

// run lets commands start until ctx ends, and returns when all have ended.
func (s *slots) run(ctx context.Context) error {
	group := lifecycle.New(ctx)
	s.mu.Lock()
	s.group = group
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.group = nil
	s.mu.Unlock()
	group.Stop()
	return group.Wait()
}

// start starts a command in a slot. The earlier command of the slot is stopped first, and has ended when work is called.
//
// With replaces, the new command kills the earlier one in the container: see [container.ErrReplaced].
func (s *slots) start(name, id string, replaces bool, output io.Writer, work func(ctx context.Context, output io.Writer) (exit int, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil {
		return // The process ends, or has not begun: then another call follows.
	}
	ctx, stop := context.WithCancelCause(s.group.Context())
	made := &slot{id: id, stop: stop, done: make(chan struct{}), starts: 1, started: time.Now(), outcome: contract.Running}
	before := s.slots[name]
	if before != nil {
		var cause error
		if replaces {
			cause = container.ErrReplaced
		}
		before.stop(cause)
		made.starts = before.starts + 1
	}
	s.slots[name] = made
	s.group.Go("command "+name, func(context.Context) error {
		defer stop(nil)
		if before != nil {
			<-before.done
		}
		exit, err := work(ctx, io.MultiWriter(output, &made.output))
		stopped := ctx.Err() != nil
		s.mu.Lock()
		made.exit, made.err, made.outcome, made.lasted = exit, err, contract.Succeeded, time.Since(made.started)
		if exit != 0 || err != nil {
			made.outcome = contract.Failed
		}
		s.mu.Unlock()
		close(made.done)
		if !stopped {
			s.ended()
		}
		return nil
	})
}

// stopSlot stops the command of a slot, and forgets it.
func (s *slots) stopSlot(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.slots[name]; found != nil && found.id != "" {
		found.stop(nil)
		found.id = ""
	}
}

// stopAll stops all commands, and forgets them.
func (s *slots) stopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.slots {
		found.stop(nil)
		found.id = ""
	}
}

// look returns the state of a slot.
func (s *slots) look(name string) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.slots[name]
	if found == nil || found.id == "" {
		return state{}
	}
	seen := state{
		id: found.id, err: found.err, isSet: true, lasted: found.lasted,
		command: contract.Command{Outcome: found.outcome, Exit: found.exit, Starts: found.starts},
	}
	if found.outcome == contract.Failed {
		seen.command.Output = found.output.String()
	}
	return seen
}

// tail keeps the end of what is written to it. It may be written to and read by different goroutines.
type tail struct {
	mu      sync.Mutex
	content []byte
}

// Write implements io.Writer.
func (t *tail) Write(part []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.content = append(t.content, part...)
	if over := len(t.content) - contract.MaxOutput; over > contract.MaxOutput { // Moved seldom, not at each write.
		t.content = append(t.content[:0], t.content[over:]...)
	}
	return len(part), nil
}

// String returns the end of the output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.content[max(0, len(t.content)-contract.MaxOutput):])
}
