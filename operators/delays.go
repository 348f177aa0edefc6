package operators

// delays is a heap of tasks, the one that is due next first.
type delays []*task

func (d delays) Len() int { return len(d) }
func (d delays) Less(i, j int) bool {
	if d[i].due.Equal(d[j].due) {
		return d[i].sequence < d[j].sequence
	}
	return d[i].due.Before(d[j].due)
}
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].position, d[j].position = i, j
}
func (d *delays) Push(next any) {
	next.(*task).position = len(*d)
	*d = append(*d, next.(*task))
}
func (d *delays) Pop() any {
	last := len(*d) - 1
	next := (*d)[last]
	(*d)[last] = nil
	*d = shrunk((*d)[:last])
	return next
}
