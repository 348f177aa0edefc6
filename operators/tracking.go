package operators

// track adds a task to Unfinished or removes it, when an attempt has ended.
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
		return // It is in Unfinished since an earlier attempt asked for another.
	}
	now := UnfinishedKey{Controller: ended.queue.name, NamespacedName: result.NamespacedName}
	if result.Outcome != Requeued {
		now.Failures, now.Terminal, now.Err = result.Attempt, result.Outcome == Ended, result.Err
	}
	s.unfinished.note(known, now)
}

// untrack removes a task from Unfinished, if it is there.
func (s *schedule) untrack(gone *task) {
	if gone.unfinished != nil {
		s.unfinished.forget(gone.unfinished)
		gone.unfinished = nil
	}
}

// untrackAll removes all tasks from Unfinished.
func (s *schedule) untrackAll() {
	if s.unfinished == nil {
		return
	}
	for _, queue := range s.queues {
		for _, task := range queue.tasks.items {
			s.untrack(task)
		}
	}
}
