package operators

// track enters a task in Unfinished, or takes it out, as its attempt ended.
func (s *schedule) track(ended *task, result *Result) {
	if s.unfinished == nil || result.Outcome == Succeeded && ended.unfinished == nil {
		return
	}
	if result.Outcome == Succeeded {
		s.untrack(ended)
		return
	}
	known := ended.unfinished
	if known == nil {
		known = &unfinished{}
		ended.unfinished = known
	} else if result.Outcome == Requeued && known.Err == nil {
		return // It has asked for another attempt before.
	}
	now := UnfinishedKey{Controller: ended.line.name, NamespacedName: result.NamespacedName}
	if result.Outcome != Requeued {
		now.Failures, now.Terminal, now.Err = result.Attempt, result.Outcome == Ended, result.Err
	}
	s.unfinished.note(known, now)
}

// untrack takes a task out of Unfinished, if it is in it.
func (s *schedule) untrack(gone *task) {
	if gone.unfinished != nil {
		s.unfinished.forget(gone.unfinished)
		gone.unfinished = nil
	}
}

// untrackAll takes all tasks out of Unfinished.
func (s *schedule) untrackAll() {
	if s.unfinished == nil {
		return
	}
	for _, line := range s.lines {
		for _, task := range line.tasks.items {
			s.untrack(task)
		}
	}
}
