package simulation

// Traffic is what passed between replicas and the API server. Bytes are bytes of the bodies of answers, without
// compression.
type Traffic struct {
	Reads      int   `json:"reads"` // lists of a kind from their first page
	Pages      int   `json:"pages"` // requests of lists
	PageBytes  int64 `json:"pageBytes"`
	Watches    int   `json:"watches"` // requests of watches
	WatchBytes int64 `json:"watchBytes"`
	Leases     int   `json:"leases"` // all requests of Leases
	LeaseBytes int64 `json:"leaseBytes"`
	Writes     int   `json:"writes"`
	WriteBytes int64 `json:"writeBytes"`
	Others     int   `json:"others"` // requests that find out where a kind is
	OtherBytes int64 `json:"otherBytes"`
}

// Requests returns the number of all requests.
func (t Traffic) Requests() int { return t.Pages + t.Watches + t.Leases + t.Writes + t.Others }

// Bytes returns the number of all bytes.
func (t Traffic) Bytes() int64 {
	return t.PageBytes + t.WatchBytes + t.LeaseBytes + t.WriteBytes + t.OtherBytes
}

// plus returns the sum of t and factor × other.
func (t Traffic) plus(factor int, other Traffic) Traffic {
	return Traffic{
		Reads: t.Reads + factor*other.Reads,
		Pages: t.Pages + factor*other.Pages, PageBytes: t.PageBytes + int64(factor)*other.PageBytes,
		Watches: t.Watches + factor*other.Watches, WatchBytes: t.WatchBytes + int64(factor)*other.WatchBytes,
		Leases: t.Leases + factor*other.Leases, LeaseBytes: t.LeaseBytes + int64(factor)*other.LeaseBytes,
		Writes: t.Writes + factor*other.Writes, WriteBytes: t.WriteBytes + int64(factor)*other.WriteBytes,
		Others: t.Others + factor*other.Others, OtherBytes: t.OtherBytes + int64(factor)*other.OtherBytes,
	}
}
