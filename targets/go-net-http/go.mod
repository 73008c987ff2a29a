module go-net-http

go 1.22
